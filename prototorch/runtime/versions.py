"""Version counters of arrays: whether what was computed from them earlier is still current.

An array changes in two ways. A plan that writes it counts its runs. Anybody else gets it from `VersionTracker.export`,
as an array over the same memory that is known here for as long as it, or any view of it, is alive: meanwhile the
contents may change at any time, so nothing computed from them is trusted; when the last view is gone the version is a
new one. No reference is counted: a weak reference tells when an exported array is gone.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

__all__ = ["Snapshot", "Version", "VersionTracker"]

#: equal versions: equal contents
Version = tuple[int, ...]


class Snapshot(NamedTuple):
    """The counters when a version was taken: a quick way to find that nothing at all has happened since."""

    events: int
    write_counters: list[list[int]]
    writes: list[int]


class _Memory:
    """The memory of an array. NumPy makes views of an array over foreign memory refer to that array, not to the memory,
    so that the array is alive as long as any view of it."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: np.ndarray):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class VersionTracker:
    """The versions of the arrays of a mapping."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays
        self._events = 0  # of any kind but a plan's writes
        self._versions: Counter[str] = Counter()
        self._exports: dict[str, weakref.ref[np.ndarray]] = {}
        self._writers: list[tuple[frozenset[str], list[int]]] = []
        self._epoch = 0
        #: by name, the trackers of other models that have the same array, with its name there
        self._sharers: dict[str, list[tuple[weakref.ref[VersionTracker], str]]] = {}
        self._largest: dict[frozenset[str], float] = {}

    def largest(self, names: frozenset[str]) -> float | None:
        """The largest magnitude in these arrays as `set_largest` has said it, by one plan for all or by several for
        parts; None where others than plans may have changed one since."""
        if len(self._largest) == 1:
            return self._largest.get(names)
        if not names <= frozenset[str]().union(*self._largest):
            return None
        return max((value for among, value in self._largest.items() if among & names), default=0.0)

    def set_largest(self, names: frozenset[str], value: float | None) -> None:
        """Say what the largest magnitude in these arrays is; None: unknown, for all arrays."""
        if value is None:
            self._largest.clear()
        else:
            self._largest[names] = value

    def link(self, name: str, other: VersionTracker, other_name: str) -> None:
        """Another tracker has the same array: what is computed from it here depends on the changes there, too."""
        sharers = [link for link in self._sharers.get(name, ()) if link[0]() not in (None, other)]
        self._sharers[name] = [*sharers, (weakref.ref(other), other_name)]
        self._events += 1

    def change_count(self, name: str) -> int | None:
        """A number that grows with each change of the array that was made here; None where it may change at any
        time."""
        if name in self._exports:
            return None
        return self._epoch + self._versions[name] + self.count_plan_writes(name)

    def count_plan_writes(self, name: str) -> int:
        """How often plans have written the array."""
        return sum(writes[0] for names, writes in self._writers if name in names)

    def export(self, name: str) -> np.ndarray:
        """The array for anybody who may read and write it; the same one again while it is alive."""
        self.mark_changed(name)
        reference = self._exports.get(name)
        exported = None if reference is None else reference()
        if exported is None:
            array = self._arrays[name]
            exported = np.asarray(_Memory(array))
            self._exports[name] = weakref.ref(exported, partial(self._release, name))
            if exported.dtype != array.dtype:  # a type that NumPy's array interface cannot name
                return exported.view(array.dtype)
        return exported

    def _release(self, name: str, reference: weakref.ref[np.ndarray]) -> None:
        if self._exports.get(name) is reference:
            del self._exports[name]
        self.mark_changed(name)

    def mark_changed(self, name: str) -> None:
        """The array may have changed."""
        self._versions[name] += 1
        self._events += 1
        for names in [names for names in self._largest if name in names]:
            del self._largest[names]

    def mark_replaced(self, name: str) -> None:
        """There is another array of this name, or none."""
        self._exports.pop(name, None)
        self.mark_changed(name)

    def mark_all_changed(self) -> None:
        """All arrays may have changed."""
        self._largest.clear()
        self._epoch += 1
        self._events += 1

    def register_writer(self, names: frozenset[str]) -> list[int]:
        """A counter for a plan that writes these arrays; it is increased before each write."""
        counter = [0]
        self._writers.append((names, counter))
        self._events += 1
        return counter

    def version_of(self, names: Iterable[str]) -> Version | None:
        """The version of these arrays together; None where they may change at any time."""
        own = []
        for name in names:
            if name in self._exports or self._arrays[name].base is not None:
                return None
            own.append(self._versions[name])
            for reference, other_name in self._sharers.get(name, ()):
                other = reference()
                count = 0 if other is None else other.change_count(other_name)
                if count is None:
                    return None
                own.append(count)
        together = frozenset(names)
        return self._epoch, *own, *(counter[0] for writer_names, counter in self._writers if writer_names & together)

    def snapshot(self, names: Iterable[str]) -> Snapshot:
        """The counters now, for `is_unchanged`; to be taken beside a version that is not None."""
        together = frozenset(names)
        counters = [counter for writer_names, counter in self._writers if writer_names & together]
        return Snapshot(self._events, counters, [counter[0] for counter in counters])

    def is_unchanged(self, snapshot: Snapshot) -> bool:
        """Whether nothing has happened since; where it has, the version tells whether it matters."""
        return (
            not self._sharers
            and snapshot.events == self._events
            and all(
                counter[0] == writes for counter, writes in zip(snapshot.write_counters, snapshot.writes, strict=True)
            )
        )
