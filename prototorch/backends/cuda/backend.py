"""The GPU as a backend: a kernel of the level "cuda" where there is one, else the plain body on CuPy's arrays."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cuda.array_namespace import CapturableNamespace
from prototorch.backends.cuda.device import CudaDevice, CupyDevice
from prototorch.backends.cuda.dry_run_device import DryRunDevice
from prototorch.backends.cuda.executor.cuda_graph import CudaGraphExecutor
from prototorch.backends.cuda.executor.device_mirror import DeviceMirror
from prototorch.backends.cuda.kernels.elementwise import ElementwiseKernel
from prototorch.backends.cuda.kernels.launch import use_device
from prototorch.backends.cuda.kernels.optimizer_update import fuse_updates
from prototorch.backends.executable_plan import ExecutablePlan, StepSpec
from prototorch.backends.precision import ExecutionSettings, numpy_dtype
from prototorch.backends.registry import KernelFn
from prototorch.ops.core import Op
from prototorch.ops.linear import matmul
from prototorch.spec import Spec

LEVEL = "cuda"
#: a runner with the arrays it is bound to
BoundStreamKernel = tuple["StreamKernel", Sequence[Any], Sequence[Any]]
AddressRanges = Sequence[tuple[int, int]]  # addresses from and to
_LOW_PRECISION = ("float16", "bfloat16")


class StreamKernel:
    """A runner that is given to the device's stream; ``scope`` and ``phase`` say where in a net it belongs, ``gate``
    which of the step's flags it waits for ("": none).

    A kernel's runner may have an attribute ``why_not_captured`` (why a step with it cannot be captured; absent or "":
    it can), and, where it writes new weights, a method ``gated(flag)``, flag being int32[1] on the device, that gives a
    runner which leaves its outputs as they are where flag is 0. One that has none is gated here, by a copy.
    """

    def __init__(self, device: CudaDevice, op: str, run: KernelFn, scope: str = "", phase: str = ""):
        self.device, self.op, self.kernel, self.scope, self.phase = device, op, run, scope, phase
        self.condition = ""
        self.not_capturable_reason = getattr(run, "not_capturable_reason", "")
        self.family = getattr(run, "family", "")

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Give it to the stream."""
        self.device.enqueue(self.op, lambda: self.kernel(inputs, outputs))

    def make_conditional(self, flag: Any) -> StreamKernel:
        """The same work, done only where the flag is not 0."""
        own = getattr(self.kernel, "make_conditional", None)
        run = own(flag) if own is not None else _make_conditional(self.device.xp, self.kernel, flag)
        return StreamKernel(self.device, self.op, run, self.scope, self.phase)


def _ranges_overlap(some: AddressRanges, others: AddressRanges) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


def _make_conditional(xp: Any, run: KernelFn, flag: Any) -> KernelFn:
    """The results are made elsewhere, and copied where the flag is not 0.

    An output that is also an input (an update in place) is read before it is written, for nothing is written before
    all results are there.
    """

    def gated(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        made = [xp.empty(o.shape, dtype=o.dtype) for o in outputs]
        run(inputs, made)
        for target, source in zip(outputs, made, strict=True):
            xp.copyto(target, source, where=flag.astype(bool)[0])

    return gated


class CudaBackend(Backend):
    """The backend of a device. ``kernels=False`` leaves all to the plain bodies, which checks the kernels."""

    #: how often a plan's inputs lie on the device: where the step reads them, and where the next ones arrive
    input_copies = 2
    has_device_memory = True
    is_asynchronous = True
    can_precompile = False  # a kernel is compiled for its first launch
    preprocesses_in_step = True
    prefers_ghost_norm = False
    #: a recorded step is for one batch size: the smaller last batch is filled up and goes through it, too
    is_shape_specialized = True

    def __init__(self, device: CudaDevice, kernels: bool = True):
        xp = CapturableNamespace(device.xp.module)  # of this backend alone: it gets a product of its own
        super().__init__(f"cuda ({device.name})", xp, (LEVEL,) if kernels else (), run_context=device.running)
        self.device = device
        #: held by whoever gives the device work: while a thread records a step, another's work would be recorded, too
        self.lock = threading.RLock()
        self.precision = device.settings.precision
        if self.precision.low_dtype is not None:
            numpy_dtype(self.precision.low_dtype)  # said now where it is missing
        self._matmul_kernels: dict[tuple[Spec, Spec], tuple[Spec, KernelFn | None]] = {}
        if kernels:
            self.xp.matmul = self.kernel_matmul

    def prepare(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> KernelFn:
        """See `Backend.prepare`; kernels are compiled here."""
        with self.lock, use_device(self.device):
            run = super().prepare(op, ins, outs, attrs)
        return run if isinstance(run, StreamKernel) else StreamKernel(self.device, op.name, run)

    def choose_kernel(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> Any:
        """See `Backend.choose_kernel`."""
        with use_device(DryRunDevice(self.device)):
            return super().choose_kernel(op, ins, outs, attrs)

    def scratch_bytes(self, steps: Iterable[StepSpec]) -> int:
        """See `Backend.scratch_bytes`: the workspace, and what kernels hold of their own. What plain bodies make in
        between
        is not known before they run."""
        asked = DryRunDevice(self.device)
        with use_device(asked):
            for op, ins, outs, attrs in steps:
                super().prepare(op, ins, outs, attrs)
        return asked.workspace_bytes + asked.persistent_bytes

    def reference(self, op: Op, attrs: Mapping[str, Any]) -> KernelFn:
        """See `Backend.reference`. What is stored in a narrow type is computed with in float32, as kernels do."""
        inner, xp = super().reference(op, attrs), self.xp

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            wide = [xp.astype(a, xp.float32) if a.dtype.name in _LOW_PRECISION else a for a in inputs]
            inner(wide, outputs)

        return run

    def fuse_updates(self, calls: Sequence[BoundStreamKernel]) -> list[BoundStreamKernel]:
        """Bound calls in which updates of one formula and one gate have become one launch, where nothing stands in the
        way: an update is put off until the last of its group, past calls that neither write what it reads or writes nor
        read what it writes."""
        made: list[BoundStreamKernel] = []
        waiting: list[tuple[BoundStreamKernel, AddressRanges, AddressRanges]] = []
        for call in calls:
            reads, writes = (list(map(self._address_range, arrays)) for arrays in call[1:])
            if any(_ranges_overlap(w, [*reads, *writes]) or _ranges_overlap(writes, r) for _, r, w in waiting):
                made += self._fuse_groups([one for one, _, _ in waiting])
                waiting = []
            if isinstance(call[0].kernel, ElementwiseKernel):
                waiting.append((call, reads, writes))
            else:
                made.append(call)
        return made + self._fuse_groups([one for one, _, _ in waiting])

    def _fuse_groups(self, calls: Sequence[BoundStreamKernel]) -> list[BoundStreamKernel]:
        made: list[BoundStreamKernel] = []
        for gate in dict.fromkeys(work.condition for work, _, _ in calls):
            some = [call for call in calls if call[0].condition == gate]
            known = {id(work.kernel): work for work, _, _ in some}
            with use_device(self.device):
                joined = fuse_updates([(work.kernel, ins, outs) for work, ins, outs in some])
            for run, ins, outs in joined:
                work = known.get(id(run)) or StreamKernel(
                    self.device, getattr(run, "label", "updates"), run, "all weights", "update"
                )
                work.condition = gate
                made.append((work, ins, outs))
        return made

    def _address_range(self, array: Any) -> tuple[int, int]:
        start = self.device.pointer(array)
        return start, start + array.nbytes

    def kernel_matmul(self, a: Any, b: Any) -> Any:
        """``a @ b`` inside a plain body: by the kernel of the op where there is one, which may be captured. CuPy's own
        way is cuBLAS, which may not."""
        specs = Spec(tuple(a.shape), a.dtype.name), Spec(tuple(b.shape), b.dtype.name)
        if specs not in self._matmul_kernels:
            out = matmul.infer_spec(*specs)
            assert isinstance(out, Spec)
            with use_device(self.device):
                found = (candidate(specs, (out,), {}) for _, candidate in self._candidates(matmul, (*specs, out)))
                self._matmul_kernels[specs] = out, next((run for run in found if run is not None), None)
        out, run = self._matmul_kernels[specs]
        if run is None:
            return self.xp.module.matmul(a, b)
        made = self.xp.empty(out.shape, dtype=out.dtype)
        run((self.xp.ascontiguousarray(a), self.xp.ascontiguousarray(b)), (made,))
        return made

    def make_executor(self, plan: ExecutablePlan, states: Any, arena: Any = None) -> CudaGraphExecutor:
        """See `Backend.make_executor`. Arrays of the host that have no mirror yet get one."""
        mirror = states if isinstance(states, DeviceMirror) else DeviceMirror(states, self)
        return CudaGraphExecutor(plan, self, mirror, arena)

    def mirror_states(self, host: Mapping[str, Any]) -> DeviceMirror:
        """See `Backend.mirror_states`."""
        return DeviceMirror(host, self)

    def empty(self, spec: Spec) -> Any:
        """See `Backend.empty`."""
        return self.device.empty(spec.shape, spec.dtype)

    def allocate(self, count: int) -> Any:
        """See `Backend.allocate`."""
        return self.device.alloc(count)

    def free_bytes(self) -> int | None:
        """See `Backend.free_bytes`: of the GPU's memory."""
        return self.device.free_bytes()

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        """See `Backend.asarray`; an array of the host is copied to the device now."""
        if self.device.owns(array):
            return array if dtype is None or array.dtype == np.dtype(dtype) else array.astype(dtype)
        with self.lock:
            return self.device.upload(np.asarray(array, dtype=dtype))

    def to_numpy(self, array: Any) -> np.ndarray:
        """See `Backend.to_numpy`; this waits until all that was begun is done."""
        if not self.device.owns(array):
            return np.asarray(array)
        with self.lock:
            return self.device.download(array)


@lru_cache(maxsize=4)
def get_backend(settings: ExecutionSettings, index: int = 0) -> CudaBackend:
    """The backend of a GPU for these settings. Raises BackendError where there is none that can be used."""
    importlib.import_module("prototorch.backends.cuda.kernels")
    return CudaBackend(CupyDevice(settings, index))
