"""Memory for what follows from the states alone (arranged weights, say): plans that keep the same keep it together.

It is filled again when a state has changed that it follows from. When a plan changes such a state the pages are given
back to the system at once; the addresses stay, to which plans are bound.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from prototorch.graph.ir import Value
from prototorch.graph.plan import Plan
from prototorch.runtime.versions import Version, VersionTracker


class CachedTensor:
    """The memory of one value: ``array`` of bytes. ``stamp``: when it was filled, None where it is not."""

    def __init__(self, count: int, names: tuple[str, ...]):
        self.names = names
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
    """What the plans of one set of states keep, by what it is."""

    def __init__(self, changes: VersionTracker):
        self._changes = changes
        self._tensors: WeakValueDictionary[Any, CachedTensor] = WeakValueDictionary()

    def tensors_of(self, plan: Plan, levels: tuple[str, ...]) -> dict[int, CachedTensor]:
        """The memory of each value that a plan keeps between its runs, by its offset in what the plan keeps.

        levels: of the kernels that fill it. Plans share what the same ops make of the same states.
        """
        known: dict[int, tuple[Any, frozenset[str]]] = {}

        def said(value: Value) -> tuple[Any, frozenset[str]]:
            place = plan.allocations[id(value)]
            if place.kind == "state":
                return ("state", place.name, value.spec), frozenset((place.name,))
            if value.kind == "constant":
                array = np.asarray(value.array)
                return ("constant", value.spec, array.tobytes()), frozenset()
            if id(value) not in known:  # another shape of what is known
                assert value.node is not None
                key, names = said(value.node.inputs[0])
                known[id(value)] = ("view", value.spec, key), names
            return known[id(value)]

        found: dict[int, CachedTensor] = {}
        for step in plan.steps[: plan.setup_steps]:
            read = [said(v) for v in step.inputs]
            names = frozenset[str]().union(*(n for _, n in read))
            attrs = {k: v for k, v in step.node.attrs.items() if k != "use" or step.node.attrs.get("form") is None}
            for i, value in enumerate(step.outputs):
                key = (
                    levels,
                    step.node.op.name,
                    tuple(sorted(attrs.items())),
                    tuple(k for k, _ in read),
                    i,
                    value.spec,
                )
                known[id(value)] = key, names
                place = plan.allocations[id(value)]
                if place.kind == "persistent":
                    held = self._tensors.get(key)
                    if held is None:
                        held = self._tensors[key] = CachedTensor(value.spec.nbytes, tuple(sorted(names)))
                    found[place.offset] = held
        return found

    def is_current(self, kept: Iterable[CachedTensor]) -> bool:
        """Whether all of it is filled, and nothing has changed since."""
        return all(one.version is not None and one.version == self._changes.version_of(one.names) for one in kept)

    def mark_filled(self, kept: Iterable[CachedTensor]) -> None:
        """It has been filled now."""
        for one in kept:
            one.version = self._changes.version_of(one.names)

    def invalidate(self, names: frozenset[str]) -> None:
        """These states change now: what follows from them is let go."""
        for one in list(self._tensors.values()):
            if one.version is not None and not names.isdisjoint(one.names):
                one.free()
