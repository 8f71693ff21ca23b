"""The CPU backend with native kernels: neighbouring steps of a plan run as one program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

import numpy as np

from prototorch.engine.backends.capabilities import PackRequest, pack_request_at
from prototorch.engine.backends.core import Backend, Selection
from prototorch.engine.backends.cpu.native.autotune import choose_fastest
from prototorch.engine.backends.cpu.native.jit import CompileStats, load_or_compile, precompile
from prototorch.engine.backends.cpu.native.kernel_api import NativeKernel, collect_codes
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask, TaskProgram, pool_functions
from prototorch.engine.backends.executable_plan import StepSpec
from prototorch.engine.backends.registry import KernelFn
from prototorch.ops.core import Op
from prototorch.ops.prepack import OperandUse, apply_prepacked, prepack
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
BoundStep = tuple[KernelFn, Sequence[Any], Sequence[Any]]


_PREPACK_OPS = (prepack.name, apply_prepacked.name)  # `NativeBackend.pack_request` chooses for both


def _truncate(array: Any, spec: Spec) -> Any:
    """An array, or its beginning where a candidate packs its operand into fewer elements."""
    return array if array.size == spec.size else array[: spec.size]


class NativeBackend(Backend):
    """Runs neighbouring native steps as one program, without Python between them.

    autotune: whether kernels are chosen by timing those that apply, see `autotune`.
    """

    cache_bytes = 12 << 20  # a part of the last-level cache; a constant, so that plans are the same on every machine

    is_shape_specialized = True

    def __init__(self, *args: Any, autotune: bool = False, **options: Any):
        super().__init__(*args, **options)
        self.autotune = autotune

    def _select(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> Selection | None:
        first = super()._select(op, ins, outs, attrs)
        if (
            not self.autotune
            or op.name in _PREPACK_OPS
            or first is None
            or not isinstance(first.kernel_fn, NativeKernel)
        ):
            return first
        candidates: dict[str, tuple[NativeKernel, Selection]] = {}
        for one in self._applicable_kernels(op, ins, outs, attrs, (*self.levels, *self._measured_levels)):
            if isinstance(one.kernel_fn, NativeKernel):
                candidates[f"{one.choice.level}/{one.choice.family}/{len(candidates)}"] = one.kernel_fn, one
        return candidates[self._fastest_kernel(op, ins, outs, attrs, {k: run for k, (run, _) in candidates.items()})][1]

    def has_kernel(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> bool:
        """See `Backend.has_kernel`. Nothing is measured for it."""
        return super()._select(op, ins, outs, attrs) is not None

    def pack_request(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> PackRequest | None:
        """See `Backend.pack_request`; with autotune, the request of the fastest level that has one."""
        if not self.autotune:
            return super().pack_request(op, ins, outs, attrs)
        requests: dict[str, PackRequest] = {}
        for level in (*self.levels, *self._measured_levels):
            one = pack_request_at(level, op.name, ins, outs, attrs)
            if one is not None:
                requests[level] = one._replace(level=level)
        if not requests:
            return None
        runners, specs = {}, {}
        for level, one in requests.items():
            use = OperandUse(op.name, tuple(sorted(attrs.items())), ins, outs, one.operand, level)
            specs[level] = (*ins[: one.operand], Spec((one.size,)), *ins[one.operand + 1 :])
            selection = super()._select(apply_prepacked, specs[level], outs, {"use": use})
            if selection is not None and isinstance(selection.kernel_fn, NativeKernel):
                runners[level] = selection.kernel_fn
        if len(runners) < 2:
            return requests[next(iter(runners or requests))]
        largest = max(specs.values(), key=lambda one: sum(s.size for s in one))
        return requests[self._fastest_kernel(op, largest, outs, {**attrs, "prepacked": True}, runners)]

    @property
    def _measured_levels(self) -> tuple[str, ...]:
        """The levels of kernels that only a measurement chooses: other grain sizes, and Winograd's convolutions."""
        return ("smaller", "measured") if "winograd" in self.levels else ("smaller",)

    def _fastest_kernel(
        self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any], runners: Mapping[str, NativeKernel]
    ) -> str:
        if len(runners) == 1:
            return next(iter(runners))
        step = (op.name, ins, outs, tuple(sorted(attrs.items())), self.threads)

        def bind_arrays(run: NativeKernel) -> Callable[[Sequence[Any], Sequence[Any]], Callable[[], None]]:
            return lambda inputs, outputs: run.make_program(list(map(_truncate, inputs, run.ins)), outputs)

        return choose_fastest(
            step,
            {name: bind_arrays(run) for name, run in runners.items()},
            ins,
            outs,
            lambda: self.warm_up(list(runners.values())),
        )

    def prepare_all(self, steps: Sequence[BoundStep]) -> None:
        """Compile what is missing for these steps, in several processes."""
        with collect_codes() as codes:
            for run, ins, outs in steps:
                if isinstance(run, NativeKernel):
                    run.bind(ins, outs)
        load_or_compile([one.request for one in codes], self.threads)

    def warm_up(self, runners: Sequence[KernelFn]) -> None:
        """Compile what these kernels may need, for any addresses of their arrays."""
        pool_functions()
        with collect_codes() as codes:
            for run in runners:
                if isinstance(run, NativeKernel):
                    run.enumerate_variants()
        load_or_compile([one.request for one in codes], self.threads)

    def precompile(self, runners: Sequence[KernelFn], stop: threading.Event) -> None:
        """As `warm_up`, by other processes at low priority."""
        with collect_codes() as codes:
            for run in runners:
                if isinstance(run, NativeKernel):
                    run.enumerate_variants()
        precompile([one.request for one in codes], self.threads, stop)

    def scratch_bytes(self, steps: Iterable[StepSpec]) -> int | None:
        """The scratch memory of the thread pool, for all threads together and for each: the most that any kernel needs.
        Steps without a native kernel are not counted."""
        local = shared = 0
        runs = [self.prepare(*step) for step in steps]
        with collect_codes():
            for run in {id(run): run for run in runs}.values():
                for task in run.enumerate_variants() if isinstance(run, NativeKernel) else ():
                    local, shared = max(local, task.local_bytes), max(shared, task.shared_bytes)
        return shared + self.threads * local

    def compile_counts(self) -> tuple[int, int]:
        """See `Backend.compile_counts`."""
        return CompileStats.num_compiled, CompileStats.num_loaded

    def link_steps(self, steps: Sequence[BoundStep]) -> list[Callable[[], None]]:
        """See `Backend.link_steps`."""
        calls: list[Callable[[], None]] = []
        for native, group in groupby(steps, lambda step: isinstance(step[0], NativeKernel)):
            bound_steps = list(group)
            if native:
                tasks = [task for run, ins, outs in bound_steps for task in cast(NativeKernel, run).bind(ins, outs)]
                calls.append(TaskProgram(tasks, bound_steps))
            else:
                calls += [partial(run, ins, outs) for run, ins, outs in bound_steps]
        return calls

    def link_rebindable(self, steps: Sequence[BoundStep], operand: int) -> Callable[[Sequence[Any]], None]:
        """See `Backend.link_rebindable`. Native steps are one program, in which the addresses are replaced."""
        if not steps or not all(isinstance(run, NativeKernel) for run, _, _ in steps):
            return super().link_rebindable(steps, operand)
        tasks: list[ParallelTask] = []
        positions, at = [], 0
        for run, ins, outs in steps:
            # a stand-in whose address no other operand has, so that it is found among the arguments
            array = ins[operand]
            stand_in = np.empty_like(array)
            own = cast(NativeKernel, run).bind((*ins[:operand], stand_in, *ins[operand + 1 :]), outs)
            words = [word for task in own for word in task.words]
            matches = [i for i, word in enumerate(words) if word == stand_in.ctypes.data]
            if len(matches) != 1:
                return super().link_rebindable(steps, operand)
            positions.append(at + matches[0])
            at += len(words)
            tasks += own
        program = TaskProgram(tasks, steps)

        def call(arrays: Sequence[Any]) -> None:
            for position, array in zip(positions, arrays, strict=True):
                program.arguments[position] = array.__array_interface__["data"][0]
            program()

        return call
