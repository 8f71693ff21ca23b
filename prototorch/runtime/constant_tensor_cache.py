"""Memory for tensors that follow from states alone (prepacked weights, say); plans that compute the same share it.

A tensor is computed again when one of its states has changed. When a plan updates such a state its pages are given back
to the system at once; the addresses, to which plans are bound, stay.
"""

from __future__ import annotations

import mmap
from collections.abc import Hashable, Iterable
from weakref import WeakValueDictionary

import numpy as np

from prototorch.engine.backends.executable_plan import ExecutablePlan
from prototorch.runtime.versions import Version, VersionTracker

__all__ = ["CachedTensor", "ConstantTensorCache"]


class CachedTensor:
    """The memory of one tensor: ``array`` of bytes. ``states`` are the names of those it follows from; ``version`` is
    that of the states when it was filled, None where it is not filled."""

    def __init__(self, count: int, states: tuple[str, ...]):
        self.states = states
        self.version: Version | None = None
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
        self._pages = mmap.mmap(-1, max(count, 1), **private)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._advise(mmap.MADV_HUGEPAGE)
        self.array = np.frombuffer(self._pages, np.uint8, count)

    def free(self) -> None:
        """Give the pages back to the system; what they held is lost."""
        self.version = None
        if hasattr(mmap, "MADV_DONTNEED"):
            self._advise(mmap.MADV_DONTNEED)

    def _advise(self, what: int) -> None:
        try:
            self._pages.madvise(what)
        except OSError:  # a system that does not take the advice keeps the pages as they are
            return


class ConstantTensorCache:
    """The persistent tensors of all plans that are bound to one set of states, by what is computed."""

    def __init__(self, versions: VersionTracker):
        self._versions = versions
        self._tensors: WeakValueDictionary[Hashable, CachedTensor] = WeakValueDictionary()

    def tensors_of(self, plan: ExecutablePlan, levels: tuple[str, ...]) -> dict[int, CachedTensor]:
        """The memory of a plan's persistent tensors, by their offset. ``levels``: of the kernels that fill them."""
        tensors: dict[int, CachedTensor] = {}
        for tensor in plan.persistent_tensors:
            key = levels, tensor.key
            cached = self._tensors.get(key)
            if cached is None:
                cached = self._tensors[key] = CachedTensor(tensor.nbytes, tensor.states)
            tensors[tensor.offset] = cached
        return tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def tensors(self) -> list[CachedTensor]:
        """All tensors that some executor is bound to."""
        return list(self._tensors.values())

    def is_current(self, tensors: Iterable[CachedTensor]) -> bool:
        """Whether all of them are filled, and no state of theirs has changed since."""
        return all(t.version is not None and t.version == self._versions.version_of(t.states) for t in tensors)

    def mark_filled(self, tensors: Iterable[CachedTensor]) -> None:
        """They have been computed from the states as they are now."""
        for tensor in tensors:
            tensor.version = self._versions.version_of(tensor.states)

    def invalidate(self, states: frozenset[str]) -> None:
        """These states change now: free the memory of the tensors that follow from them."""
        for tensor in self.tensors():
            if tensor.version is not None and not states.isdisjoint(tensor.states):
                tensor.free()
