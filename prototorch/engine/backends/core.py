"""The dispatcher: the one place that decides whether a kernel or the reference implementation runs an op.

A `Backend` is an array module, a list of kernel levels, and memory. Kernels are registered in
`prototorch.engine.backends.registry`, what they can fuse, lay out and prepack in
`prototorch.engine.backends.capabilities`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from prototorch.engine.backends import host_memory
from prototorch.engine.backends.capabilities import (
    LayoutSupport,
    PackRequest,
    declares_fusion_or_layouts,
    fusion_role_at,
    layout_support_at,
    pack_request_at,
)
from prototorch.engine.backends.executable_plan import ExecutablePlan, StepSpec
from prototorch.engine.backends.executor import BoundStep, Executor, HostExecutor, StateMirror, StateStore
from prototorch.engine.backends.precision import PrecisionPolicy
from prototorch.engine.backends.registry import KernelFn, PrepareFn, kernels_of
from prototorch.ops.core import Op
from prototorch.ops.linear import matmul
from prototorch.spec import Spec

__all__ = ["REFERENCE", "Backend", "KernelChoice", "Selection"]

REFERENCE = "plain"  #: the level of the reference implementation, as `KernelChoice` and PROTOTORCH_CPU name it


class KernelChoice(NamedTuple):
    """Which kernel runs a step.

    Attributes:
        level: the kernel's level, or "plain" for the reference implementation.
        family: the algorithm, the same on every machine: the prepared kernel's attribute ``family`` where it has one,
            else the name of the file that defines the kernel.
    """

    level: str
    family: str


class Selection(NamedTuple):
    """A kernel that applies to a step, prepared, and its name."""

    kernel_fn: KernelFn
    choice: KernelChoice


def _family(prepare: PrepareFn) -> str:
    return prepare.__module__.rsplit(".", 1)[-1]


class Backend:
    """An array module, the levels of kernels that are tried in order, and memory.

    Attributes:
        name: for messages, such as "cpu (native)".
        xp: the array module in which reference implementations run.
        levels: the kernel levels, the preferred one first.
        threads: the number of threads that kernels use.
        run_context: a function that returns the context in which kernels must be called.
        device: the GPU (see cuda); None where arrays lie in the host's own memory.
        batch_memory: lends arrays of the host from which the device copies without a copy in between (a
            `data.batch_assembly.BatchMemory`); None where there is no device.
        input_copies: how many copies of a plan's inputs lie in this backend's memory.
        is_shape_specialized: whether kernels are compiled for the sizes of a step, so that a new size costs time.
        cache_bytes: bytes that stay in the caches from one step to the next; where they are known, plans without a
            backward pass process a large batch in slices.
        precision: how values are stored and whether the loss is scaled.
        has_device_memory: whether arrays lie in the memory of a device, to which those of the host are copied.
        is_asynchronous: whether a call of an executor returns before its step is done.
        can_precompile: whether `precompile` shortens the first run of a plan.
        preprocesses_in_step: whether a model's preprocessing is part of the step, rather than of the data loader.
    """

    device: Any = None
    batch_memory: Any = None
    input_copies = 1
    is_shape_specialized = False
    cache_bytes = 0
    precision = PrecisionPolicy("fp32")
    has_device_memory = False
    is_asynchronous = False
    can_precompile = True
    preprocesses_in_step = False

    def __init__(
        self,
        name: str,
        xp: Any,
        levels: Sequence[str],
        threads: int = 1,
        run_context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ):
        self.name, self.xp, self.levels, self.threads, self.run_context = name, xp, tuple(levels), threads, run_context

    # ------------------------------------------------------------------ choosing a kernel

    def prepare(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> KernelFn:
        """The preferred kernel for this op on these specs, prepared; the reference implementation if none applies."""
        selection = self._select(op, ins, outs, attrs)
        return self.reference(op, attrs) if selection is None else selection.kernel_fn

    def choose_kernel(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]
    ) -> KernelChoice:
        """The level and the family of the kernel that `prepare` returns."""
        selection = self._select(op, ins, outs, attrs)
        return KernelChoice(REFERENCE, "") if selection is None else selection.choice

    def kernel_level(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> str:
        """The level of the kernel that `prepare` returns."""
        return self.choose_kernel(op, ins, outs, attrs).level

    def has_kernel(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> bool:
        """Whether a kernel applies, so that the reference implementation is not needed."""
        return self.kernel_level(op, ins, outs, attrs) != REFERENCE

    def _select(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]
    ) -> Selection | None:
        """The first kernel that applies; None where none does."""
        return next(self._applicable_kernels(op, ins, outs, attrs, self.levels), None)

    def _applicable_kernels(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any], levels: Iterable[str]
    ) -> Iterator[Selection]:
        """All kernels of these levels that apply."""
        for level, prepare in self._candidates(op, (*ins, *outs), levels):
            kernel_fn = prepare(ins, outs, dict(attrs))
            if kernel_fn is not None:
                yield Selection(kernel_fn, KernelChoice(level, getattr(kernel_fn, "family", "") or _family(prepare)))

    def _candidates(
        self, op: Op, specs: Iterable[Spec], levels: Iterable[str] | None = None
    ) -> Iterator[tuple[str, PrepareFn]]:
        """The kernels of an op with their levels; where a spec has a layout, those of levels that support it."""
        has_layout = any(s.layout is not None for s in specs)
        for level in self.levels if levels is None else levels:
            if not has_layout or layout_support_at(level, op.name) is not None:
                for prepare in kernels_of(level, op.name):
                    yield level, prepare

    def reference(self, op: Op, attrs: Mapping[str, Any]) -> KernelFn:
        """The op's reference implementation as a kernel: it makes new arrays, which are copied into the outputs."""
        attrs = dict(attrs)
        body, xp = op.reference, self.xp

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            results = body(xp, *inputs, **attrs)
            if not isinstance(results, tuple):
                results = (results,)
            for target, source in zip(outputs, results, strict=True):
                target[...] = source

        return run

    # ------------------------------------------------------------------ capabilities, for the passes

    def fusion_role(self, name: str) -> str | None:
        """What an op may be in a fused group: "elementwise", "anchor", "tail", or None."""
        return next((role for level in self.levels if (role := fusion_role_at(level, name))), None)

    def pack_request(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]
    ) -> PackRequest | None:
        """Which operand the kernel for an op reads faster when it is packed beforehand; None where none is."""
        requests = (pack_request_at(level, op.name, ins, outs, attrs) for level in self.levels)
        return next((request for request in requests if request is not None), None)

    def layout_support(self, name: str) -> LayoutSupport | None:
        """How an op takes part in the layout channels_last; None for one that supports the default layout only."""
        return next((support for level in self.levels if (support := layout_support_at(level, name))), None)

    @property
    def prefers_ghost_norm(self) -> bool:
        """Whether the norm of a weight gradient is faster from two small products than from the gradient itself."""
        return self.fusion_role(matmul.name) == "anchor"

    @property
    def can_fuse(self) -> bool:
        """Whether plans for this backend are fused and laid out."""
        return any(map(declares_fusion_or_layouts, self.levels))

    # ------------------------------------------------------------------ compiling and linking

    def prepare_all(self, steps: Sequence[BoundStep]) -> None:
        """Called with all steps of a plan before any of them is linked or run, so that a backend can compile what they
        need together."""

    def warm_up(self, kernels: Sequence[KernelFn]) -> None:
        """Compile and cache all that these prepared kernels may need once they are bound."""

    def precompile(self, kernels: Sequence[KernelFn], stop: Event) -> None:
        """As `warm_up`, in the background at low priority; ends early when ``stop`` is set."""

    def scratch_bytes(self, steps: Iterable[StepSpec]) -> int | None:
        """Bytes of scratch memory that the kernels of a plan's steps take beside its arena; None where that is not
        known before they run."""
        return None

    def compile_counts(self) -> tuple[int, int]:
        """The kernels compiled in this process, and the kernels loaded from disk."""
        return 0, 0

    def link_steps(self, steps: Sequence[BoundStep]) -> list[Callable[[], None]]:
        """Bound steps as calls without arguments. Neighbouring steps that a backend can run in one go become one
        call."""
        return [partial(run, ins, outs) for run, ins, outs in steps]

    def link_rebindable(self, steps: Sequence[BoundStep], operand: int) -> Callable[[Sequence[Any]], None]:
        """Bound steps as one call that takes another array of the same spec for one input of each step.

        The call needs no `run_context` around it.
        """

        def call(arrays: Sequence[Any]) -> None:
            with self.run_context():
                for (run, ins, outs), array in zip(steps, arrays, strict=True):
                    run((*ins[:operand], array, *ins[operand + 1 :]), outs)

        return call

    # ------------------------------------------------------------------ running plans

    def make_executor(
        self, plan: ExecutablePlan, states: StateStore | StateMirror | Mapping[str, Any], arena: Any = None
    ) -> Executor:
        """The executor of a plan: kernels prepared, memory allocated and states bound.

        ``states``: the arrays of its states, or what `mirror_states` returned for them. ``arena``: memory shared with
        plans that never run at the same time (default: memory of its own).
        """
        return HostExecutor(plan, self, states, arena)

    def mirror_states(self, host: Mapping[str, Any]) -> StateMirror | None:
        """A mirror of the host's arrays in the memory of this backend's device; None where it has no such memory."""
        return None

    # ------------------------------------------------------------------ memory and arrays

    def enqueue(self, name: str, work: Callable[[], Any]) -> None:
        """Do work on arrays after the kernels that were called before: a device runs these while the host goes on.

        name: of the work. What it computes is read by `to_numpy`, from arrays that were made before.
        """
        with self.run_context():
            work()

    def make_writer(self, target: Any) -> Callable[[np.ndarray], None]:
        """A function that overwrites an array of this backend with one of the host, of its shape and dtype, in the
        order of the work."""
        return partial(operator.setitem, target, ...)

    def empty(self, spec: Spec) -> Any:
        """An array of this spec with undefined elements."""
        return self.xp.empty(spec.shape, dtype=spec.dtype)

    def allocate(self, nbytes: int) -> Any:
        """Memory for a plan's buffers: a uint8 array whose address is a multiple of 64."""
        raw = self.xp.empty(nbytes + 64, dtype="uint8")
        skip = -raw.ctypes.data % 64
        return raw[skip : skip + nbytes]

    def free_bytes(self) -> int | None:
        """Bytes of memory that can still be allocated where this backend's arrays live; None where that is unknown."""
        return host_memory.free_bytes()

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        """The array on this backend."""
        return self.xp.asarray(array, dtype=dtype)

    def copy(self, array: Any) -> Any:
        """A contiguous copy of an array of this backend."""
        return array.copy()

    def to_numpy(self, array: Any) -> Any:
        """The array as a NumPy array."""
        return array
