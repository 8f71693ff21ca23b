"""Background compilation of plans that the training will need later."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache

__all__ = ["BackgroundCompilation"]


class BackgroundCompilation(AbstractContextManager["BackgroundCompilation"]):
    """Makes the plan of one phase and input size in a thread, so that it is ready when it is needed, if time allows.

    The kernels are compiled by processes of low priority: on a machine whose cores are all busy it costs what compiling
    them later would. Leaving the context stops it. An error is ignored here: it recurs, and is reported, where the plan
    is needed.
    """

    def __init__(self, plan_cache: PlanCache, phase: str, specs: Mapping[str, Spec]):
        self.plan_cache, self.phase, self.specs = plan_cache, phase, specs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="prototorch-precompile", daemon=True)

    def __enter__(self) -> BackgroundCompilation:
        self._thread.start()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self) -> None:
        """Wait until it is done."""
        self._thread.join()

    def _work(self) -> None:
        try:
            self.plan_cache.precompile(self.phase, self.specs, self._stop)
        except Exception:
            return
