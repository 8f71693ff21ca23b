"""Which variables may have changed since somebody last looked, so that what follows from them need not be made again.

Every array that is asked for by name counts as changed, for whoever got it may write into it, and so does what a plan
writes. An array that somebody still holds may change at any time without a word: that is told by the number of
references to it, less those of the runners. (A view counts as well, for it refers to the array.)
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

Version = tuple[Any, ...]


class Snapshot(NamedTuple):
    """What arrays looked like when their stamp was taken: a quick way to find that nothing at all has happened."""

    names: tuple[str, ...]
    events: int
    reference_counts: list[int]
    write_counters: list[list[int]]
    writes: list[int]


class VersionTracker:
    """What is known of the changes of the arrays of a mapping. ``arrays`` gives them without counting as asked for."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays
        self._get = getattr(arrays, "getter", arrays.__getitem__)
        self._events = 0  # whatever was told
        self._accesses: Counter[str] = Counter()
        self._owned_references: Counter[str] = Counter()  # references that runners hold
        self._writers: list[tuple[frozenset[str], list[int]]] = []
        self._mark_all_count = 0

    def mark_accessed(self, name: str) -> None:
        """Somebody gets the array, or sets another one."""
        self._accesses[name] += 1
        self._events += 1

    def mark_all(self) -> None:
        """All of them may have changed."""
        self._mark_all_count += 1
        self._events += 1

    def register_writer(self, names: frozenset[str]) -> list[int]:
        """A number for one who writes those arrays; it counts it up before it writes."""
        cell = [0]
        self._writers.append((names, cell))
        self._events += 1
        return cell

    def count_references(self) -> Counter[str]:
        """How many references there are to each array, now, beside that of the mapping."""
        return Counter({name: _extra_references(self._arrays, name) for name in self._arrays})

    def register_owner(self, owner: Any, before: Counter[str]) -> None:
        """The references that are there now, and were not before, are the owner's, as long as it lives."""
        held = self.count_references() - before
        self._owned_references.update(held)
        weakref.finalize(owner, self._owned_references.subtract, held)

    def version_of(self, names: Iterable[str]) -> Version | None:
        """Two equal stamps: none of these arrays has changed between them. None: nobody can tell."""
        asked = []
        for name in names:
            if (
                self._arrays[name].base is not None
                or _extra_references(self._arrays, name) > self._owned_references[name]
            ):
                return None
            asked.append(self._accesses[name])
        watched = frozenset(names)
        return self._mark_all_count, *asked, *(cell[0] for theirs, cell in self._writers if theirs & watched)

    def snapshot(self, names: Iterable[str]) -> Snapshot:
        """How things are now, for `unchanged`; to be asked for beside a stamp that is not None."""
        held = tuple(names)
        watched = frozenset(held)
        cells = [cell for theirs, cell in self._writers if theirs & watched]
        return Snapshot(held, self._events, self._counts(held), cells, [cell[0] for cell in cells])

    def is_unchanged(self, seen: Snapshot) -> bool:
        """Whether nothing has happened since: nobody was given an array, none was written, and nobody holds more of
        them. Where that is not so, the stamp tells whether it matters."""
        return (
            seen.events == self._events
            and seen.writes == [cell[0] for cell in seen.write_counters]
            and seen.reference_counts == self._counts(seen.names)
        )

    def _counts(self, names: tuple[str, ...]) -> list[int]:
        return [*map(sys.getrefcount, map(self._get, names))]


def _reference_count(arrays: Mapping[str, Any], name: str) -> int:
    array = arrays[name]
    return sys.getrefcount(array)


_MAPPING_REFERENCES = _reference_count({"": np.zeros(1)}, "")  # of an array that only the mapping has


def _extra_references(arrays: Mapping[str, Any], name: str) -> int:
    return _reference_count(arrays, name) - _MAPPING_REFERENCES
