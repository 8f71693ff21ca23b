"""What a view knows of the tensor that it is a view of."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.errors import UsageError
from prototorch.ops.view_update import ViewSteps

__all__ = ["ViewInfo"]


class ViewInfo(NamedTuple):
    """The tensor that owns the memory, and the ops that lead from it to the view.

    graph_version: that of the storage when the view's place on the tape was computed. base_array: the base's array,
    which becomes another one where the base takes another shape in place, or other memory.
    """

    base: Any
    steps: ViewSteps
    graph_version: int
    base_array: Any

    @classmethod
    def extend(cls, source: Any, op: str, attrs: tuple[tuple[str, Any], ...]) -> ViewInfo:
        """The view by one more op on a tensor, which may be a view itself."""
        base, steps = (source, ()) if source.view_info is None else (source.view_info.base, source.view_info.steps)
        return cls(base, (*steps, (op, attrs)), source.storage.graph_version, base.array)

    def check_base(self) -> None:
        """Raise UsageError where the base is no longer the array that the view is of."""
        if self.base.array is not self.base_array:
            raise UsageError(
                "the tensor that this one is a view of has taken another shape or memory in place (t_(), unsqueeze_(), "
                "data = ...) since the view was made: make the view again"
            )
