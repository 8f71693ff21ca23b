"""The CUDA backend: kernels of the level "cuda", and reference implementations on CuPy's arrays where there is none."""

from __future__ import annotations

import importlib
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet, WeakValueDictionary, finalize, ref

import numpy as np

from prototorch.cuda.array_namespace import CapturableNamespace
from prototorch.cuda.cupy_device import CupyDevice
from prototorch.cuda.device_protocol import CudaDevice
from prototorch.cuda.dry_run_device import DryRunDevice
from prototorch.cuda.executor.cuda_graph import CudaGraphExecutor
from prototorch.cuda.executor.device_mirror import DeviceMirror
from prototorch.cuda.executor.value_check import DeviceValueCheck
from prototorch.cuda.graph_capture import release_later
from prototorch.cuda.host_writer import HostWriter
from prototorch.cuda.kernels.elementwise import ElementwiseKernel
from prototorch.cuda.kernels.launch import use_device
from prototorch.cuda.kernels.optimizer_update import fuse_updates
from prototorch.cuda.packages import cupy_packages, missing_library_command
from prototorch.cuda.pinned_pool import PinnedPool
from prototorch.cuda.stream_kernel import BoundStreamKernel, StreamKernel
from prototorch.engine.backends.core import Backend, KernelChoice
from prototorch.engine.backends.executable_plan import ExecutablePlan, StepSpec
from prototorch.engine.backends.precision import ExecutionSettings, numpy_dtype
from prototorch.engine.backends.registry import KernelFn
from prototorch.errors import BackendError
from prototorch.ops.core import Op
from prototorch.ops.linear import matmul
from prototorch.spec import Spec

__all__ = ["LEVEL", "CudaBackend", "get_backend"]

LEVEL = "cuda"
AddressRanges = Sequence[tuple[int, int]]  # begin and end of each array
_LOW_PRECISION = ("float16", "bfloat16")


class CudaBackend(Backend):
    """The backend of a device. ``kernels=False`` runs reference implementations alone, with which tests compare the
    kernels."""

    input_copies = 2  # the block that the step reads, and the one in which the next inputs arrive
    has_device_memory = True
    is_asynchronous = True
    can_precompile = False  # a kernel is compiled for its first launch
    preprocesses_in_step = True
    prefers_ghost_norm = False
    is_shape_specialized = True  # a captured step has one batch size: a smaller last batch is padded to it

    def __init__(self, device: CudaDevice, kernels: bool = True):
        xp = CapturableNamespace(device.xp.module)  # of this backend alone: its matmul is replaced below
        name = f"cuda ({device.name})" if device.settings.cudnn else f"cuda ({device.name}, without cuDNN)"
        super().__init__(name, xp, (LEVEL,) if kernels else (), run_context=self._in_stream)
        self.device = device
        #: must be held by whoever enqueues work: during a capture the work of other threads would be captured as well
        self.lock = threading.RLock()
        self.batch_memory = PinnedPool(lambda nbytes: device.alloc_pinned(nbytes), self.lock)
        self.precision = device.settings.precision
        if self.precision.low_dtype is not None:
            numpy_dtype(self.precision.low_dtype)  # raises now where the dtype is not installed
        self._executors: set[object] = set()  # a token for each
        self.value_checks: WeakSet[DeviceValueCheck] = WeakSet()  # of the executors
        self._matmul_kernels: dict[tuple[Spec, Spec], tuple[Spec, KernelFn | None]] = {}
        if kernels:
            self.xp.matmul = self.kernel_matmul

    @contextmanager
    def _in_stream(self) -> Iterator[None]:
        """The context in which work may be enqueued: by this thread alone, on the device's compute stream."""
        with self.lock, self.device.stream_context():
            yield

    # ------------------------------------------------------------------ kernels

    def prepare(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> KernelFn:
        """See `Backend.prepare`; kernels are compiled here."""
        with self._in_stream(), use_device(self.device):
            kernel = super().prepare(op, ins, outs, attrs)
        return kernel if isinstance(kernel, StreamKernel) else StreamKernel(self.device, op.name, kernel)

    def choose_kernel(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]
    ) -> KernelChoice:
        """See `Backend.choose_kernel`."""
        with self._in_stream(), use_device(DryRunDevice(self.device)):
            return super().choose_kernel(op, ins, outs, attrs)

    def scratch_bytes(self, steps: Iterable[StepSpec]) -> int:
        """See `Backend.scratch_bytes`: the workspace, and what kernels allocate for themselves. What reference
        implementations allocate is not known before they run."""
        dry_run = DryRunDevice(self.device)
        with self._in_stream(), use_device(dry_run):
            for op, ins, outs, attrs in steps:
                super().prepare(op, ins, outs, attrs)
        return dry_run.workspace_bytes + dry_run.persistent_bytes

    def reference(self, op: Op, attrs: Mapping[str, Any]) -> KernelFn:
        """See `Backend.reference`. Inputs of 16-bit dtypes are computed with in float32, as kernels do. Raises
        BackendError where a library of CUDA is missing that CuPy needs for the op (linear algebra: cuSOLVER)."""
        inner, xp = super().reference(op, attrs), self.xp

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            try:
                inner([xp.astype(a, xp.float32) if a.dtype.name in _LOW_PRECISION else a for a in inputs], outputs)
            except ImportError as error:
                major = next((package.cuda for package in cupy_packages()), None)
                raise BackendError(
                    f"{op.name} on a GPU needs a library of CUDA that is not installed: "
                    f"{missing_library_command(error, major)}"
                ) from error

        return run

    def kernel_matmul(self, a: Any, b: Any) -> Any:
        """``a @ b`` inside a reference implementation, by the kernel of the op where there is one: CuPy's own matmul
        calls cuBLAS, which cannot be captured."""
        specs = Spec(tuple(a.shape), a.dtype.name), Spec(tuple(b.shape), b.dtype.name)
        if specs not in self._matmul_kernels:
            spec = matmul.infer_spec(*specs)
            assert isinstance(spec, Spec)
            with use_device(self.device):
                kernels = (prepare(specs, (spec,), {}) for _, prepare in self._candidates(matmul, (*specs, spec)))
                self._matmul_kernels[specs] = spec, next((kernel for kernel in kernels if kernel is not None), None)
        spec, kernel = self._matmul_kernels[specs]
        if kernel is None:
            return self.xp.module.matmul(a, b)
        out = self.xp.empty(spec.shape, dtype=spec.dtype)
        kernel((self.xp.ascontiguousarray(a), self.xp.ascontiguousarray(b)), (out,))
        return out

    # ------------------------------------------------------------------ running plans

    def make_executor(self, plan: ExecutablePlan, states: Any, arena: Any = None) -> CudaGraphExecutor:
        """See `Backend.make_executor`. Arrays of the host that have no mirror yet get one."""
        mirror = states if isinstance(states, DeviceMirror) else DeviceMirror(states, self)
        executor = CudaGraphExecutor(plan, self, mirror, arena)
        token = object()
        self._executors.add(token)
        finalize(executor, _end_executor, ref(self), token).atexit = False
        return executor

    def end_executor(self, token: object) -> None:
        """An executor is not used any more; after the last one the workspace is released, which the next requests
        again."""
        self._executors.discard(token)
        if not self._executors:
            release_later(self.device.release_workspace)

    def mirror_states(self, host: Mapping[str, Any]) -> DeviceMirror:
        """See `Backend.mirror_states`."""
        return DeviceMirror(host, self)

    def fuse_updates(self, steps: Sequence[BoundStreamKernel]) -> list[BoundStreamKernel]:
        """The steps, with updates of one formula and one condition fused into one launch where that is legal: an update
        is postponed until the last of its group, past steps that neither write what it reads or writes nor read what it
        writes."""
        fused: list[BoundStreamKernel] = []
        postponed: list[tuple[BoundStreamKernel, AddressRanges, AddressRanges]] = []
        for step in steps:
            reads, writes = (list(map(self._address_range, arrays)) for arrays in step[1:])
            if any(_overlap(w, [*reads, *writes]) or _overlap(writes, r) for _, r, w in postponed):
                fused += self._fuse_groups([update for update, _, _ in postponed])
                postponed = []
            if isinstance(step[0].kernel, ElementwiseKernel):
                postponed.append((step, reads, writes))
            else:
                fused.append(step)
        return fused + self._fuse_groups([update for update, _, _ in postponed])

    def _fuse_groups(self, updates: Sequence[BoundStreamKernel]) -> list[BoundStreamKernel]:
        fused: list[BoundStreamKernel] = []
        for condition in dict.fromkeys(kernel.condition for kernel, _, _ in updates):
            group = [update for update in updates if update[0].condition == condition]
            stream_kernels = {id(kernel.kernel): kernel for kernel, _, _ in group}
            with self._in_stream(), use_device(self.device):
                launches = fuse_updates([(kernel.kernel, ins, outs) for kernel, ins, outs in group])
            for launch, ins, outs in launches:
                kernel = stream_kernels.get(id(launch)) or StreamKernel(
                    self.device, getattr(launch, "label", "updates"), launch, "all weights", "update"
                )
                kernel.condition = condition
                fused.append((kernel, ins, outs))
        return fused

    def _address_range(self, array: Any) -> tuple[int, int]:
        start = self.device.pointer(array)
        return start, start + array.nbytes

    # ------------------------------------------------------------------ memory and arrays

    def enqueue(self, name: str, work: Callable[[], Any]) -> None:
        """See `Backend.enqueue`."""
        with self._in_stream():
            self.device.enqueue(name, work)

    def make_writer(self, target: Any) -> Callable[[np.ndarray], None]:
        """See `Backend.make_writer`; the host waits neither for the work nor for the copy."""
        writer = HostWriter(self.device, target)

        def write(array: np.ndarray) -> None:
            with self._in_stream():
                writer(array)

        return write

    def empty(self, spec: Spec) -> Any:
        """See `Backend.empty`."""
        return self.device.empty(spec.shape, spec.dtype)

    def allocate(self, nbytes: int) -> Any:
        """See `Backend.allocate`."""
        return self.device.alloc(nbytes)

    def free_bytes(self) -> int | None:
        """See `Backend.free_bytes`: of the GPU's memory."""
        return self.device.free_bytes()

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        """See `Backend.asarray`; an array of the host is copied to the device synchronously."""
        with self._in_stream():
            if not self.device.owns(array):
                return self.device.upload(np.asarray(array, dtype=dtype))
            if dtype is None or array.dtype == np.dtype(dtype):
                return array
            return self._copy_as(array, np.dtype(dtype).name)

    def copy(self, array: Any) -> Any:
        """See `Backend.copy`."""
        return self._copy_as(array, array.dtype.name)

    def _copy_as(self, array: Any, dtype: str) -> Any:
        with self._in_stream():
            copy = self.device.empty_pooled(tuple(array.shape), dtype)
            self.device.enqueue("copy", lambda: operator.setitem(copy, ..., array))
        return copy

    def to_numpy(self, array: Any) -> np.ndarray:
        """See `Backend.to_numpy`; waits until all enqueued work is done. Raises as `raise_value_errors`."""
        if not self.device.owns(array):
            return np.asarray(array)
        with self._in_stream():
            elements = self.device.download(array)
            self.raise_value_errors()
            return elements

    def raise_value_errors(self) -> None:
        """Raise the error of a step that has read a value outside of its bounds, as far as the host has been told: of
        all steps, where it has waited for the device. See `DeviceValueCheck`."""
        for check in list(self.value_checks):
            if check.report[0]:
                with self._in_stream():
                    check.raise_error()


def _end_executor(backend: ref[CudaBackend], token: object) -> None:
    alive = backend()
    if alive is not None:
        alive.end_executor(token)


def _overlap(some: AddressRanges, others: AddressRanges) -> bool:
    return any(begin < other_end and other_begin < end for begin, end in some for other_begin, other_end in others)


_backends: WeakValueDictionary[tuple[ExecutionSettings, int], CudaBackend] = WeakValueDictionary()
_last_used: list[CudaBackend] = []  # one, which stays alive between two models of the same settings
_backends_lock = threading.RLock()  # a garbage collection inside of it may end the life of a backend


def get_backend(settings: ExecutionSettings, index: int = 0) -> CudaBackend:
    """The backend of a GPU for these settings; index: of the GPU (default 0). Raises BackendError where no GPU can be
    used.

    Models of the same settings share one. It is freed, with its streams, its compiled kernels and cuDNN's handle and
    plans, when no model uses it and another one has been asked for.
    """
    importlib.import_module("prototorch.cuda.kernels")
    with _backends_lock:
        backend = _backends.get((settings, index))
        if backend is None:
            backend = _backends[settings, index] = CudaBackend(CupyDevice(settings, index))
        _last_used[:] = [backend]
    return backend
