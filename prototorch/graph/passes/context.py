"""What every pass is run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.value_guard import ValueCheck
from prototorch.graph.ir import Graph

__all__ = ["Pass", "PassContext"]


@dataclass
class PassContext:
    """What a graph is compiled for.

    backend: whose kernels run it; None: the reference implementation of each op. low_memory: trade time for memory.
    bytes_before_rematerialization: the arena that the step would need without it, where `rematerialize` has run.
    value_checks: of the indices that `guard_values` counts.
    """

    backend: Backend | None = None
    low_memory: bool = False
    bytes_before_rematerialization: int = 0
    value_checks: list[ValueCheck] = field(default_factory=list)

    @property
    def kernels(self) -> Backend:
        """The backend, in a pass that only runs where there is one."""
        assert self.backend is not None
        return self.backend


#: a pass rewrites the graph and says whether it has changed it; it leaves nodes that nobody reads to its caller
Pass = Callable[[Graph, PassContext], bool]
