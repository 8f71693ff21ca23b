"""A device that notes what a step would start: launches with the bytes they read and write, and cuDNN's graphs.

Plans are made for it as for a GPU, and their runners are called, on arrays that are only told of: nothing is computed
and no memory is taken. cuDNN need not be installed: a graph is taken as accepted (tests/cuda/offline asks the real
one).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from prototorch.cuda import kernels as _kernels  # noqa: F401 - enters the kernels
from prototorch.cuda.array_namespace import CapturableNamespace
from prototorch.cuda.cudnn.context import set_context
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.cuda.kernels.launch import ITEM_BYTES
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from prototorch.graph.cost import estimate_cost
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

_WORKSPACE = 1 << 60  # where the workspace begins: an address that no array has
_PACK = {2: 8, 4: 4}  # channels that cuDNN's engines read together, by the bytes of an element


class ArrayDesc:
    """An array that is only told of."""

    flags = SimpleNamespace(c_contiguous=True)

    def __init__(self, shape: tuple[int, ...], dtype: str, address: int = 0):
        self.shape, self.name, self.address = shape, dtype, address
        self.nbytes = prod(shape) * ITEM_BYTES[dtype]

    @property
    def dtype(self) -> Any:
        """Its type, of which only the name is known."""
        return SimpleNamespace(name=self.name)

    def reshape(self, *shape: Any) -> ArrayDesc:
        """The same array."""
        return self

    def __getitem__(self, key: int) -> ArrayDesc:
        """A part along the first axis."""
        return ArrayDesc(self.shape[1:], self.name, self.address)


@dataclass(frozen=True)
class LaunchCost:
    """A kernel that was started: ``name``, bytes read and written, the floating-point operations of a product and the
    type of its factors ("" for what is no product)."""

    name: str
    nbytes: float
    flops: int = 0
    operand_dtype: str = ""


class RecordingDevice:
    """The device; ``graph_launches`` holds what runners have started since it was emptied."""

    deterministic = False
    capability = (9, 0)
    name = "recording"
    compute_stream = copy_stream = None
    xp = CapturableNamespace(np)
    stream_context = staticmethod(nullcontext)

    def __init__(self, precision: str):
        self.settings = ExecutionSettings(resolve_precision(precision, gpu=True))
        self.precision = self.settings.precision.name
        self.space, self.calls = 0, list[Any]()
        set_context(self, _RecordingCudnn(self))  # type: ignore[arg-type]

    def load_module(self, source: str) -> str:
        """See `KernelDevice.load_module`."""
        return source

    def launch(self, module: str, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """Note a launch: the arrays among its arguments, and whether it uses the workspace."""
        arrays = {id(a): a for a in args if isinstance(a, ArrayDesc)}
        uses_workspace = any(isinstance(a, np.uint64) and int(a) >= _WORKSPACE for a in args)
        self.calls.append((name, list(arrays.values()), uses_workspace))

    def pointer(self, array: Any) -> int:
        """See `KernelDevice.pointer`."""
        return array.address if isinstance(array, ArrayDesc) else 0

    def upload(self, array: Any) -> Any:
        """See `KernelDevice.upload`; tables are small and not counted."""
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> ArrayDesc:
        """See `KernelDevice.empty`."""
        return ArrayDesc(tuple(shape), dtype)

    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        """See `CudaDevice.alloc_pinned`."""
        return np.empty(nbytes, np.uint8)

    def reserve(self, nbytes: int) -> None:
        """See `KernelDevice.reserve`."""
        self.space = max(self.space, nbytes)

    def workspace(self) -> ArrayDesc:
        """See `KernelDevice.workspace`."""
        return ArrayDesc((self.space,), "uint8", _WORKSPACE)

    def drain_launches(self, arguments: Sequence[ArrayDesc], channels: bool = True) -> list[LaunchCost]:
        """What was started since the last call, by runners on these arrays. An array that is given to several launches
        of one kernel (the steps of a recurrent layer) counts once in all of them together."""
        calls, self.calls = self.calls, []
        argument_ids = {id(a) for a in arguments}
        counts = Counter(call[0] for call in calls if not isinstance(call, LaunchCost))
        launches = []
        for call in calls:
            if isinstance(call, LaunchCost):
                launches.append(call)
                continue
            name, arrays, uses_workspace = call
            nbytes = sum(a.nbytes / (counts[name] if id(a) in argument_ids else 1) for a in arrays)
            launches.append(LaunchCost(name, nbytes + (self.space if uses_workspace else 0)))
        self.space = 0
        return launches


class _RecordingCudnn:
    """cuDNN, as far as it is asked here."""

    multiprocessors = 132

    def __init__(self, device: RecordingDevice):
        self.device = device

    def get_plan(self, request: GraphDesc, may_measure: bool = True) -> Any:
        """A plan that notes what running it would start; strict float32 has no engine for batches of products."""
        if request.kind == "matmul" and self.device.precision == "fp32":
            return None
        launches = graph_launches(request)
        return _RecordingPlan(self.device, request, launches)


class _RecordingPlan:
    """A plan whose engine has tensor cores, runs in clusters, and splits where that is asked of it."""

    workspace, uses_tensor_cores = 0, True
    heuristic_engine = engine = SimpleNamespace(has_clusters=True, slices=2)

    def __init__(self, device: RecordingDevice, desc: GraphDesc, launches: list[LaunchCost]):
        self.desc = desc
        self.context, self.found = SimpleNamespace(device=device), launches

    def __call__(self, arrays: Any) -> None:
        self.context.device.calls += self.found


def graph_launches(request: GraphDesc) -> list[LaunchCost]:
    """The kernels that cuDNN starts for a graph: the one that computes it, and those that bring an operand into the
    order its engines read, as the workspace of its plans for an H200 tells: weights with channels last, a multiple of
    eight channels (four of float32) where there is more than one, and groups of channels each by itself."""
    kind, ports = request.kind, dict(request.tensors)
    nbytes: float = sum(_bytes(p) for p in ports.values())
    if kind == "matmul":
        a, b, y = (Spec(ports[n].dims, ports[n].dtype) for n in "aby")
        return [LaunchCost(kind, nbytes, estimate_cost(OPS["matmul"], (a, b), (y,), {}).flops, a.dtype)]
    if kind.startswith("sdpa"):
        return [_attention(kind, ports, nbytes)]
    specs = {name: Spec(p.dims, p.dtype) for name, p in ports.items()}
    names = {"conv": ("x", "w", "y"), "conv_input_grad": ("g", "w", "dx"), "conv_weight_grad": ("x", "g", "dw")}[kind]
    *ins, out = (specs[n] for n in names)
    flops = estimate_cost(OPS[kind], tuple(ins), (out,), {}).flops
    real, weights = specs["x" if "x" in specs else "dx"].shape[1], specs["w" if "w" in specs else "dw"]
    pack, extra = _PACK.get(ITEM_BYTES[ins[0].dtype], 1), []
    is_grouped = 1 < weights.shape[1] < real
    for name in names:
        port = ports[name]
        channels = port.dims[1]
        wide = _bytes(port) * -(-channels // pack) * pack / channels  # with the channels that are added
        if name in ("w", "dw"):
            if prod(port.dims[2:]) > 1 and channels > 1 and port.strides[1] != 1:
                extra.append(LaunchCost(f"turn {name}", 2 * _bytes(port)))
        elif channels % pack and channels > 1:
            nbytes += wide - _bytes(port)
            extra.append(LaunchCost(f"pad {name}", _bytes(port) + wide))
        elif is_grouped:
            extra.append(LaunchCost(f"split {name}", 2 * _bytes(port)))
    padded_channels = -(-real // pack) * pack if real > 1 else 1
    return [LaunchCost(kind, nbytes, flops * padded_channels // real, ins[0].dtype), *extra]


def _attention(kind: str, ports: dict[str, TensorDesc], nbytes: float) -> LaunchCost:
    q, k = (Spec(ports[n].dims, ports[n].dtype) for n in "qk")
    scores = Spec((*q.shape[:3], k.shape[2]), q.dtype)
    one = estimate_cost(
        OPS["matmul"], (q, replace(k, shape=(*k.shape[:2], k.shape[3], k.shape[2]))), (scores,), {}
    ).flops
    return LaunchCost(kind, nbytes, one * (2 if kind == "sdpa" else 5), q.dtype)


def _bytes(port: TensorDesc) -> int:
    return prod(port.dims) * ITEM_BYTES[port.dtype]
