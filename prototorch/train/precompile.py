"""Plans for batches that are still to come, made and compiled beside the training."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache


class BackgroundCompilation(AbstractContextManager["BackgroundCompilation"]):
    """Has the plan of one phase ready for inputs of one size by the time it is asked for, if there is the time.

    The kernels are compiled by processes that give way to the training, so on a machine whose cores are all in use it
    costs what compiling them when they are needed would. Leaving the context ends it. What goes wrong here goes wrong
    again, and is told, where the plan is needed.
    """

    def __init__(self, program: PlanCache, phase: str, specs: Mapping[str, Spec]):
        self.plan_cache, self.phase, self.specs = program, phase, specs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="prototorch-ahead", daemon=True)

    def __enter__(self) -> BackgroundCompilation:
        self._thread.start()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self) -> None:
        """Until it is done."""
        self._thread.join()

    def _work(self) -> None:
        try:
            self.plan_cache.precompile(self.phase, self.specs, self._stop)
        except Exception:
            return
