"""The memory of tensors: one storage for a tensor and all views of it, with one version counter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Storage", "VariableStorage", "has_overlap"]


class Storage:
    """The memory that a tensor and its views have in common.

    version: counts the changes of its elements. graph_version: counts the changes of the tensor that the views are of
    as the tape knows it, after which a view's place on the tape is another one. is_pinned: whether it is page-locked
    memory of the host, from which a GPU copies while the host goes on.
    """

    __slots__ = ("graph_version", "is_pinned", "version")

    def __init__(self, is_pinned: bool = False) -> None:
        self.version, self.is_pinned = 0, is_pinned
        self.graph_version = 0

    def mark_changed(self) -> None:
        """Count a change of the elements."""
        self.version += 1


class VariableStorage(Storage):
    """The storage of a model's weight: that a step of `fit` writes it counts as a change here, and a change here is
    known to the runtime."""

    __slots__ = ("_own_changes", "name", "variables")

    def __init__(self, variables: Any, name: str):
        self.graph_version, self.is_pinned = 0, False
        self.variables, self.name, self._own_changes = variables, name, 0

    @property
    def version(self) -> int:  # type: ignore[override]
        """The changes made here and by plans."""
        count: int = self._own_changes + self.variables.versions.count_plan_writes(self.name)
        return count

    def mark_changed(self) -> None:
        self._own_changes += 1
        self.variables.versions.mark_changed(self.name)


def has_overlap(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements of an array share memory: a dimension's steps are shorter than what the finer ones reach over.

    It is exact for slices, transposed arrays, repeated elements and windows.
    """
    if 0 in shape:
        return False
    reach = itemsize
    for step, n in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if step < reach:
            return True
        reach += step * (n - 1)
    return False
