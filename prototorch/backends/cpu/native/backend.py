"""The CPU backend with native kernels: what differs is how the steps of a plan are strung together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from prototorch.backends.core import Arrangement, Backend, Runner, Said, Taken, arrangement_at
from prototorch.backends.cpu.native.build import Counts, ahead, provide
from prototorch.backends.cpu.native.call import NativeRunner, asked_for
from prototorch.backends.cpu.native.team import Program, team_functions
from prototorch.backends.cpu.native.tuning import best
from prototorch.ops.arranged import Use
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
Step = tuple[Runner, Sequence[Any], Sequence[Any]]


_ARRANGED = ("arrange", "arranged")  # the two go together; `NativeBackend.arrangement` has chosen for both


def _cut(array: Any, spec: Spec) -> Any:
    """An array, or as much of it as a candidate takes that wants its operand arranged in fewer numbers."""
    return array if array.size == spec.size else array[: spec.size]


class NativeBackend(Backend):
    """Runs neighbouring native steps as one program, without Python between them."""

    near = 12 << 20  # of a processor's last cache, which others may use as well; plans are the same on every machine

    specialised = True

    def __init__(self, *given: Any, tuned: bool = False, **more: Any):
        super().__init__(*given, **more)
        self.tuned = tuned

    def _taken(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> Taken | None:
        first = super()._taken(op, ins, outs, attrs)
        if not self.tuned or op.name in _ARRANGED or first is None or not isinstance(first.runner, NativeRunner):
            return first
        found: dict[str, tuple[NativeRunner, Taken]] = {}
        for one in self._all_taken(op, ins, outs, attrs, (*self.levels, *self._measured)):
            if isinstance(one.runner, NativeRunner):
                found[f"{one.choice.level}/{one.choice.family}/{len(found)}"] = one.runner, one
        return found[self._fastest(op, ins, outs, attrs, {k: run for k, (run, _) in found.items()})][1]

    def accepts(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> bool:
        """See `Backend.accepts`. Nothing is measured for it."""
        return super()._taken(op, ins, outs, attrs) is not None

    def arrangement(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> Arrangement | None:
        """As of `Backend`; where several levels have an arrangement, that of the fastest."""
        if not self.tuned:
            return super().arrangement(op, ins, outs, attrs)
        found: dict[str, Arrangement] = {}
        for level in (*self.levels, *self._measured):
            one = arrangement_at(level, op.name, ins, outs, attrs)
            if one is not None:
                found[level] = one._replace(level=level)
        if not found:
            return None
        runners, specs = {}, {}
        for level, one in found.items():
            use = Use(op.name, tuple(sorted(attrs.items())), ins, outs, one.operand, level)
            specs[level] = (*ins[: one.operand], Spec((one.size,)), *ins[one.operand + 1 :])
            taken = super()._taken(cast(Op, OPS["arranged"]), specs[level], outs, {"use": use})
            if taken is not None and isinstance(taken.runner, NativeRunner):
                runners[level] = taken.runner
        if len(runners) < 2:
            return found[next(iter(runners or found))]
        largest = max(specs.values(), key=lambda one: sum(s.size for s in one))
        return found[self._fastest(op, largest, outs, {**attrs, "arranged": True}, runners)]

    @property
    def _measured(self) -> tuple[str, ...]:
        """The levels of kernels that only a measurement chooses: other pieces of work, and Winograd's convolutions."""
        return ("smaller", "measured") if "winograd" in self.levels else ("smaller",)

    def _fastest(self, op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any],
                 runners: Mapping[str, NativeRunner]) -> str:  # fmt: skip
        if len(runners) == 1:
            return next(iter(runners))
        step = (op.name, ins, outs, tuple(sorted(attrs.items())), self.threads)

        def bound(run: NativeRunner) -> Callable[[Sequence[Any], Sequence[Any]], Callable[[], None]]:
            return lambda inputs, outputs: run.program(list(map(_cut, inputs, run.ins)), outputs)

        return best(step, {name: bound(run) for name, run in runners.items()}, ins, outs,
                    lambda: self.warm(list(runners.values())))  # fmt: skip

    def ready(self, steps: Sequence[Step]) -> None:
        """Compile all that is missing for these steps, in several processes."""
        with asked_for() as codes:
            for run, ins, outs in steps:
                if isinstance(run, NativeRunner):
                    run.bind(ins, outs)
        provide([one.wanted() for one in codes], self.threads)

    def warm(self, runners: Sequence[Runner]) -> None:
        """Compile all that these runners may need, wherever their arrays will lie."""
        team_functions()
        with asked_for() as codes:
            for run in runners:
                if isinstance(run, NativeRunner):
                    run.rehearse()
        provide([one.wanted() for one in codes], self.threads)

    def ahead(self, runners: Sequence[Runner], stop: threading.Event) -> None:
        """As `warm`, by other processes in the time that is left."""
        with asked_for() as codes:
            for run in runners:
                if isinstance(run, NativeRunner):
                    run.rehearse()
        ahead([one.wanted() for one in codes], self.threads, stop)

    def scratch(self, steps: Iterable[Said]) -> int | None:
        """What the team holds for all threads together and for each: the most that any kernel asks for. Steps that no
        native kernel takes are not counted."""
        local = shared = 0
        runs = [self.prepare(*step) for step in steps]
        with asked_for():
            for run in {id(run): run for run in runs}.values():
                for task in run.rehearse() if isinstance(run, NativeRunner) else ():
                    local, shared = max(local, task.local), max(shared, task.shared)
        return shared + self.threads * local

    def counts(self) -> tuple[int, int]:
        """Kernels that were compiled in this process, and kernels that were found on disk."""
        return Counts.compiled, Counts.loaded

    def strung(self, steps: Sequence[Step]) -> list[Callable[[], None]]:
        """Prepared runners bound to arrays as calls without arguments."""
        calls: list[Callable[[], None]] = []
        for native, group in groupby(steps, lambda step: isinstance(step[0], NativeRunner)):
            found = list(group)
            if native:
                tasks = [task for run, ins, outs in found for task in cast(NativeRunner, run).bind(ins, outs)]
                calls.append(Program(tasks, found))
            else:
                calls += [partial(run, ins, outs) for run, ins, outs in found]
        return calls
