"""The GPU as a backend: a kernel of the level "cuda" where there is one, else the plain body on CuPy's arrays."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from prototorch.backends.core import Backend, Runner, Said
from prototorch.backends.cuda.asked import Asked
from prototorch.backends.cuda.device import CupyDevice, Device
from prototorch.backends.cuda.kernels.fused import Sweep
from prototorch.backends.cuda.kernels.launch import using
from prototorch.backends.cuda.kernels.update import combined
from prototorch.backends.cuda.namespace import Namespace
from prototorch.backends.precision import Settings, numpy_type
from prototorch.ops.core import Op
from prototorch.ops.linear import matmul
from prototorch.spec import Spec

LEVEL = "cuda"
#: a runner with the arrays it is bound to
Call = tuple["Work", Sequence[Any], Sequence[Any]]
Spans = Sequence[tuple[int, int]]  # addresses from and to
_NARROW = ("float16", "bfloat16")


class Work:
    """A runner that is given to the device's stream; ``scope`` and ``phase`` say where in a net it belongs, ``gate``
    which of the step's flags it waits for ("": none).

    A kernel's runner may have an attribute ``why_not_captured`` (why a step with it cannot be captured; absent or "":
    it can), and, where it writes new weights, a method ``gated(flag)``, flag being int32[1] on the device, that gives a
    runner which leaves its outputs as they are where flag is 0. One that has none is gated here, by a copy.
    """

    def __init__(self, device: Device, op: str, run: Runner, scope: str = "", phase: str = ""):
        self.device, self.op, self.run, self.scope, self.phase = device, op, run, scope, phase
        self.gate = ""
        self.why_not_captured = getattr(run, "why_not_captured", "")
        self.family = getattr(run, "family", "")

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Give it to the stream."""
        self.device.enqueue(self.op, lambda: self.run(inputs, outputs))

    def gated(self, flag: Any) -> Work:
        """The same work, done only where the flag is not 0."""
        own = getattr(self.run, "gated", None)
        run = own(flag) if own is not None else _gated(self.device.xp, self.run, flag)
        return Work(self.device, self.op, run, self.scope, self.phase)


def _meet(some: Spans, others: Spans) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


def _gated(xp: Any, run: Runner, flag: Any) -> Runner:
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
    #: a recorded step is for one batch size: the smaller last batch is filled up and goes through it, too
    specialised = True

    def __init__(self, device: Device, kernels: bool = True):
        xp = Namespace(device.xp.module)  # of this backend alone: it gets a product of its own
        super().__init__(f"cuda ({device.name})", xp, (LEVEL,) if kernels else (), running=device.running)
        self.device = device
        #: held by whoever gives the device work: while a thread records a step, another's work would be recorded, too
        self.turn = threading.RLock()
        self.precision = device.settings.precision
        if self.precision.low is not None:
            numpy_type(self.precision.low)  # said now where it is missing
        self._products: dict[tuple[Spec, Spec], tuple[Spec, Runner | None]] = {}
        if kernels:
            self.xp.matmul = self.product

    def prepare(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> Runner:
        """See `Backend.prepare`; kernels are compiled here."""
        with self.turn, using(self.device):
            run = super().prepare(op, ins, outs, attrs)
        return run if isinstance(run, Work) else Work(self.device, op.name, run)

    def choice(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> Any:
        """See `Backend.choice`."""
        with using(Asked(self.device)):
            return super().choice(op, ins, outs, attrs)

    def scratch(self, steps: Iterable[Said]) -> int:
        """See `Backend.scratch`: the workspace, and what kernels hold of their own. What plain bodies make in between
        is not known before they run."""
        asked = Asked(self.device)
        with using(asked):
            for op, ins, outs, attrs in steps:
                super().prepare(op, ins, outs, attrs)
        return asked.workspace_bytes + asked.own_bytes

    def plain(self, op: Op, attrs: Mapping[str, Any]) -> Runner:
        """See `Backend.plain`. What is stored in a narrow type is computed with in float32, as kernels do."""
        inner, xp = super().plain(op, attrs), self.xp

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            wide = [xp.astype(a, xp.float32) if a.dtype.name in _NARROW else a for a in inputs]
            inner(wide, outputs)

        return run

    def together(self, calls: Sequence[Call]) -> list[Call]:
        """Bound calls in which updates of one formula and one gate have become one launch, where nothing stands in the
        way: an update is put off until the last of its group, past calls that neither write what it reads or writes nor
        read what it writes."""
        made: list[Call] = []
        waiting: list[tuple[Call, Spans, Spans]] = []
        for call in calls:
            reads, writes = (list(map(self._range, arrays)) for arrays in call[1:])
            if any(_meet(w, [*reads, *writes]) or _meet(writes, r) for _, r, w in waiting):
                made += self._joined([one for one, _, _ in waiting])
                waiting = []
            if isinstance(call[0].run, Sweep):
                waiting.append((call, reads, writes))
            else:
                made.append(call)
        return made + self._joined([one for one, _, _ in waiting])

    def _joined(self, calls: Sequence[Call]) -> list[Call]:
        made: list[Call] = []
        for gate in dict.fromkeys(work.gate for work, _, _ in calls):
            some = [call for call in calls if call[0].gate == gate]
            known = {id(work.run): work for work, _, _ in some}
            with using(self.device):
                joined = combined([(work.run, ins, outs) for work, ins, outs in some])
            for run, ins, outs in joined:
                work = known.get(id(run)) or Work(
                    self.device, getattr(run, "what", "updates"), run, "all weights", "update"
                )
                work.gate = gate
                made.append((work, ins, outs))
        return made

    def _range(self, array: Any) -> tuple[int, int]:
        start = self.device.pointer(array)
        return start, start + array.nbytes

    def product(self, a: Any, b: Any) -> Any:
        """``a @ b`` inside a plain body: by the kernel of the op where there is one, which may be captured. CuPy's own
        way is cuBLAS, which may not."""
        specs = Spec(tuple(a.shape), a.dtype.name), Spec(tuple(b.shape), b.dtype.name)
        if specs not in self._products:
            out = matmul.rule(*specs)
            assert isinstance(out, Spec)
            with using(self.device):
                found = (candidate(specs, (out,), {}) for _, candidate in self._candidates(matmul, (*specs, out)))
                self._products[specs] = out, next((run for run in found if run is not None), None)
        out, run = self._products[specs]
        if run is None:
            return self.xp.module.matmul(a, b)
        made = self.xp.empty(out.shape, dtype=out.dtype)
        run((self.xp.ascontiguousarray(a), self.xp.ascontiguousarray(b)), (made,))
        return made

    def empty(self, spec: Spec) -> Any:
        """See `Backend.empty`."""
        return self.device.empty(spec.shape, spec.dtype)

    def bytes(self, count: int) -> Any:
        """See `Backend.bytes`."""
        return self.device.alloc(count)

    def free_bytes(self) -> int | None:
        """See `Backend.free_bytes`: of the GPU's memory."""
        return self.device.free_bytes()

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        """See `Backend.asarray`; an array of the host is copied to the device now."""
        if self.device.owns(array):
            return array if dtype is None or array.dtype == np.dtype(dtype) else array.astype(dtype)
        with self.turn:
            return self.device.upload(np.asarray(array, dtype=dtype))

    def to_numpy(self, array: Any) -> np.ndarray:
        """See `Backend.to_numpy`; this waits until all that was begun is done."""
        if not self.device.owns(array):
            return np.asarray(array)
        with self.turn:
            return self.device.fetch(array)


@lru_cache(maxsize=4)
def cuda(settings: Settings, index: int = 0) -> CudaBackend:
    """The backend of a GPU for these settings. Raises BackendError where there is none that can be used."""
    importlib.import_module("prototorch.backends.cuda.kernels")
    return CudaBackend(CupyDevice(settings, index))
