"""The CPU backend with native kernels: what differs is how the steps of a plan are strung together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from prototorch.backends.core import Backend, Runner, Said
from prototorch.backends.cpu.native.build import Counts, ahead, provide
from prototorch.backends.cpu.native.call import NativeRunner, asked_for
from prototorch.backends.cpu.native.team import Program, team_functions

Step = tuple[Runner, Sequence[Any], Sequence[Any]]


class NativeBackend(Backend):
    """Runs neighbouring native steps as one program, without Python between them."""

    specialised = True

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
        with asked_for():
            for run in {id(run): run for run in (self.prepare(*step) for step in steps)}.values():
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
