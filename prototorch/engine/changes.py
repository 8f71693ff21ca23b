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

Stamp = tuple[Any, ...]


class Seen(NamedTuple):
    """What arrays looked like when their stamp was taken: a quick way to find that nothing at all has happened."""

    names: tuple[str, ...]
    events: int
    counts: list[int]
    cells: list[list[int]]
    written: list[int]


class Changes:
    """What is known of the changes of the arrays of a mapping. ``arrays`` gives them without counting as asked for."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays
        self._get = getattr(arrays, "getter", arrays.__getitem__)
        self._events = 0  # whatever was told
        self._asked: Counter[str] = Counter()
        self._ours: Counter[str] = Counter()  # references that runners hold
        self._writers: list[tuple[frozenset[str], list[int]]] = []
        self._all = 0

    def asked(self, name: str) -> None:
        """Somebody gets the array, or sets another one."""
        self._asked[name] += 1
        self._events += 1

    def everything(self) -> None:
        """All of them may have changed."""
        self._all += 1
        self._events += 1

    def writer(self, names: frozenset[str]) -> list[int]:
        """A number for one who writes those arrays; it counts it up before it writes."""
        cell = [0]
        self._writers.append((names, cell))
        self._events += 1
        return cell

    def references(self) -> Counter[str]:
        """How many references there are to each array, now, beside that of the mapping."""
        return Counter({name: _references(self._arrays, name) for name in self._arrays})

    def bound(self, owner: Any, before: Counter[str]) -> None:
        """The references that are there now, and were not before, are the owner's, as long as it lives."""
        held = self.references() - before
        self._ours.update(held)
        weakref.finalize(owner, self._ours.subtract, held)

    def stamp(self, names: Iterable[str]) -> Stamp | None:
        """Two equal stamps: none of these arrays has changed between them. None: nobody can tell."""
        asked = []
        for name in names:
            if self._arrays[name].base is not None or _references(self._arrays, name) > self._ours[name]:
                return None
            asked.append(self._asked[name])
        watched = frozenset(names)
        return self._all, *asked, *(cell[0] for theirs, cell in self._writers if theirs & watched)

    def seen(self, names: Iterable[str]) -> Seen:
        """How things are now, for `unchanged`; to be asked for beside a stamp that is not None."""
        held = tuple(names)
        watched = frozenset(held)
        cells = [cell for theirs, cell in self._writers if theirs & watched]
        return Seen(held, self._events, self._counts(held), cells, [cell[0] for cell in cells])

    def unchanged(self, seen: Seen) -> bool:
        """Whether nothing has happened since: nobody was given an array, none was written, and nobody holds more of
        them. Where that is not so, the stamp tells whether it matters."""
        return (
            seen.events == self._events
            and seen.written == [cell[0] for cell in seen.cells]
            and seen.counts == self._counts(seen.names)
        )

    def _counts(self, names: tuple[str, ...]) -> list[int]:
        return [*map(sys.getrefcount, map(self._get, names))]


def _count(arrays: Mapping[str, Any], name: str) -> int:
    array = arrays[name]
    return sys.getrefcount(array)


_ALONE = _count({"": np.zeros(1)}, "")  # of an array that only the mapping has


def _references(arrays: Mapping[str, Any], name: str) -> int:
    return _count(arrays, name) - _ALONE
