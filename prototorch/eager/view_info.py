"""What a view knows of the tensor that it is a view of."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.ops.view_update import ViewSteps

__all__ = ["ViewInfo"]


class ViewInfo(NamedTuple):
    """The tensor that owns the memory, and the ops that lead from it to the view.

    graph_version: that of the storage when the view's place on the tape was computed.
    """

    base: Any
    steps: ViewSteps
    graph_version: int

    @classmethod
    def extend(cls, source: Any, op: str, attrs: tuple[tuple[str, Any], ...]) -> ViewInfo:
        """The view by one more op on a tensor, which may be a view itself."""
        base, steps = (source, ()) if source._view is None else (source._view.base, source._view.steps)
        return cls(base, (*steps, (op, attrs)), source.storage.graph_version)
