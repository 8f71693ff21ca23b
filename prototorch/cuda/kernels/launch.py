"""Sources of CUDA kernels, their launches, and kernels that are sequences of launches.

Nothing here imports CuPy: a device is what implements the protocol `KernelDevice`, so that the same launches run on a
GPU and, in the tests, on a device that runs the kernels on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

__all__ = [
    "BLOCK",
    "C_TYPES",
    "ITEM_BYTES",
    "InputArg",
    "KernelDevice",
    "KernelLaunch",
    "LaunchSequence",
    "OutputArg",
    "WorkspaceArg",
    "align_bytes",
    "block_size_for",
    "c_type",
    "complete_source",
    "contiguous_strides",
    "cuda_kernel",
    "current_device",
    "ensure_contiguous",
    "grid_stride_launch",
    "index_scalar",
    "kernel_source",
    "memory_order",
    "per_block_launch",
    "u32",
    "use_device",
    "vector_width",
    "workspace_address",
]

#: dtype -> its name in the kernels
C_TYPES = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
    "uint64": "u64", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "float", "float64": "double",
}  # fmt: skip
ITEM_BYTES = {name: Spec((1,), name).nbytes for name in C_TYPES}
BLOCK = 256
MAX_BLOCKS = 1 << 14


class KernelDevice(Protocol):
    """What kernels need of a device. Everything runs in the order of the calls, on the device's compute stream."""

    @property
    def precision(self) -> str:
        """One of fp32, tf32, bf16, fp16."""

    @property
    def deterministic(self) -> bool:
        """Whether the same inputs must give the same bits."""

    def load_module(self, source: str) -> Any:
        """Complete CUDA C++ with extern "C" kernels, compiled; the same module for the same source."""

    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """Launch a kernel. args: arrays of the device (their address is passed) and NumPy scalars."""

    def pointer(self, array: Any) -> int:
        """The address of an array's first element."""

    def upload(self, array: np.ndarray) -> Any:
        """A copy on the device, made synchronously; must not be called during a step."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Memory for as long as the array is alive; must not be called during a step."""

    def reserve(self, nbytes: int) -> None:
        """Request workspace: one block as large as the largest request, used by one kernel after another."""

    def workspace(self) -> Any:
        """The memory that was requested by `reserve`: uint8 [bytes of the largest request]."""


_device: ContextVar[KernelDevice] = ContextVar("prototorch_cuda_device")


@contextmanager
def use_device(device: KernelDevice) -> Iterator[None]:
    """Kernels that are prepared inside are for this device."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def current_device() -> KernelDevice:
    """The device for which kernels are being prepared."""
    return _device.get()


@cache
def _read_source(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def kernel_source(name: str, largest: int = 0, **defines: str | int) -> str:
    """A kernel file made complete: its types and numbers as macros, then the common part, then the file.

    name: of a `.cu` file here, without the ending. largest: the largest count that is an index; from 2^31 on, indices
    have 64 bits. defines: NAME=value macros.
    """
    return complete_source(_read_source(f"{name}.cu"), largest, defines)


def complete_source(body: str, largest: int = 0, defines: Mapping[str, str | int] | None = None) -> str:
    """A text of kernels made complete, as `kernel_source` does."""
    if "MAX_BLOCK_THREADS" in body:
        body = _read_source("block_reduce.cuh") + body
    if "EACH_ROW_OF_BLOCK" in body:
        body = _read_source("row_per_warp.cuh") + body
    if "column_tile" in body:
        body = _read_source("column_tiles.cuh") + body
    index = "unsigned int" if largest < 1 << 31 else "unsigned long long"
    macros = "".join(f"#define {key} {value}\n" for key, value in (defines or {}).items())
    return f"typedef {index} index;\n{macros}{_read_source('common.cuh')}\n{body}"


def c_type(spec: Spec | str) -> str:
    """A spec's element type in the kernels."""
    return C_TYPES[spec if isinstance(spec, str) else spec.dtype]


@dataclass(frozen=True)
class InputArg:
    """A runner's input as the argument of a launch."""

    index: int


@dataclass(frozen=True)
class OutputArg:
    """A runner's output as the argument of a launch."""

    index: int


@dataclass(frozen=True)
class WorkspaceArg:
    """The workspace, from some byte on, as the argument of a launch."""

    offset: int = 0


@dataclass(frozen=True)
class KernelLaunch:
    """One start of a kernel: arguments are `InputArg`, `OutputArg`, arrays of the device, and NumPy scalars."""

    module: Any
    name: str
    grid: int
    block: int
    args: tuple[Any, ...]
    source: str = ""  # of the module

    def make_conditional(self, flag: Any) -> KernelLaunch:
        """The same launch, which does nothing where ``flag`` (int32[1] on the device) is 0."""
        start = self.source.index(f"KERNEL {self.name}(")
        close = start + self.source[start:].index(")")
        body = self.source.index("{", close) + 1
        gate = self.source[:close] + ", const int* gate" + self.source[close:body] + " if (!*gate) return;"
        text = gate + self.source[body:]
        return replace(self, module=current_device().load_module(text), args=(*self.args, flag), source=text)


def grid_stride_launch(text: str, name: str, count: int, *args: Any, block: int = BLOCK) -> KernelLaunch:
    """A launch of a grid-stride kernel over ``count`` elements."""
    grid = max(1, min(-(-count // block), MAX_BLOCKS))
    return KernelLaunch(current_device().load_module(text), name, grid, block, args, text)


def per_block_launch(text: str, name: str, blocks: int, *args: Any, block: int = BLOCK) -> KernelLaunch:
    """A launch of a kernel whose blocks each process one item at a time, in a loop over ``blocks`` items."""
    return KernelLaunch(current_device().load_module(text), name, max(1, min(blocks, MAX_BLOCKS)), block, args, text)


class LaunchSequence:
    """A kernel: launches, one after another.

    ``space`` is how much workspace they share, in bytes; nothing in it outlives them.
    """

    def __init__(self, *launches: KernelLaunch, workspace_bytes: int = 0):
        self.device, self.launches, self.workspace_bytes = current_device(), launches, workspace_bytes
        self.layouts: tuple[str | None, ...] = ()
        if workspace_bytes:
            self.device.reserve(workspace_bytes)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Launch them all."""
        if self.layouts:
            pairs = zip(inputs, self.layouts, strict=True)
            inputs = [a if layout else ensure_contiguous(self.device, a) for a, layout in pairs]
        base = workspace_address(self.device, self.workspace_bytes)

        def argument(a: Any) -> Any:
            if isinstance(a, InputArg):
                return inputs[a.index]
            if isinstance(a, OutputArg):
                return outputs[a.index]
            return np.uint64(base + a.offset) if isinstance(a, WorkspaceArg) else a

        for launch in self.launches:
            self.device.launch(
                launch.module, launch.name, launch.grid, launch.block, [argument(a) for a in launch.args]
            )

    def make_conditional(self, flag: Any) -> LaunchSequence:
        """The same launches, which do nothing where ``flag`` (int32[1] on the device) is 0."""
        with use_device(self.device):
            sequence = LaunchSequence(
                *(launch.make_conditional(flag) for launch in self.launches), workspace_bytes=self.workspace_bytes
            )
        sequence.layouts = self.layouts
        return sequence


def workspace_address(device: KernelDevice, nbytes: int) -> int:
    """The address of the workspace that a kernel needs so many bytes of; 0 where it needs none. It is requested again,
    for the workspace is released when no step uses it any more."""
    if not nbytes:
        return 0
    device.reserve(nbytes)
    return device.pointer(device.workspace())


PrepareLaunches = Callable[[tuple[Spec, ...], tuple[Spec, ...], dict[str, Any]], LaunchSequence | None]


def cuda_kernel(*names: str, layouts: bool = False) -> Callable[[PrepareLaunches], PrepareLaunches]:
    """Register a kernel of launches for the ops of these names.

    It is not tried for arrays without elements, and for other layouts than the default one only with ``layouts``.
    """

    def register(prepare_launches: PrepareLaunches) -> PrepareLaunches:
        def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
            specs = (*ins, *outs)
            if any(s.dtype not in C_TYPES or not s.size or (s.layout and not layouts) for s in specs):
                return None
            sequence = prepare_launches(ins, outs, attrs)
            if sequence is not None:
                sequence.layouts = tuple(s.layout for s in ins)
            return sequence

        prepare.__module__ = getattr(prepare_launches, "func", prepare_launches).__module__
        kernel("cuda", *names)(prepare)
        if layouts:
            register_channels_last("cuda", "follows", *names)
        return prepare_launches

    return register


def ensure_contiguous(device: KernelDevice, array: Any) -> Any:
    """The array, contiguous and aligned to 16 bytes; a copy where it is not.

    Arrays of a plan are; those of an eager tape may be slices of others.
    """
    return array if array.flags.c_contiguous and device.pointer(array) % 16 == 0 else array.copy()


def vector_width(spec: Spec, run: int) -> int:
    """How many adjacent elements a thread processes as one vector: 16 bytes of them, or fewer so that it divides
    ``run``."""
    pack = 16 // ITEM_BYTES[spec.dtype]
    while run % pack:
        pack //= 2
    return max(pack, 1)


def block_size_for(count: int, most: int = BLOCK) -> int:
    """The threads of a block that reduces a row of ``count`` elements: a power of two from 32 to ``most``."""
    block = 32
    while block < most and block * 2 < count:
        block *= 2
    return block


def align_bytes(nbytes: int) -> int:
    """Bytes rounded up to a multiple of 256."""
    return -(-nbytes // 256) * 256


def u32(value: int) -> np.uint32:
    """A count as a 32-bit argument."""
    return np.uint32(value)


def index_scalar(value: int, largest: int) -> np.uint32 | np.uint64:
    """A number of the kernels' index type (see `kernel_source`)."""
    return np.uint32(value) if largest < 1 << 31 else np.uint64(value)


def contiguous_strides(spec: Spec) -> tuple[int, ...]:
    """The strides of a spec's memory in elements, per logical axis, by its layout."""
    order = memory_order(spec)
    strides, stride = [0] * spec.ndim, 1
    for axis in reversed(order):
        strides[axis] = stride
        stride *= spec.shape[axis]
    return tuple(strides)


def memory_order(spec: Spec) -> tuple[int, ...]:
    """The logical axes in the order of memory, the slowest first."""
    if spec.layout == "channels_last" and spec.ndim > 2:
        return (0, *range(2, spec.ndim), 1)
    return tuple(range(spec.ndim))
