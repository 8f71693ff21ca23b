"""Nodes put together into groups, such that an order of the groups always remains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from prototorch.graph.ir import Node, Value

_PHASE_ORDER = {"setup": -1, "update": 1}


class FusionGroups:
    """A partition of nodes, each in a group of its own at first. Sets of nodes are kept as the bits of a number.

    ``nodes`` are in an order in which each reads only what is there.
    """

    def __init__(self, nodes: Sequence[Node]):
        self.nodes = nodes
        self.producer = {id(v): i for i, node in enumerate(nodes) for v in node.outputs}
        self.readers: dict[int, list[int]] = {}  # value id -> nodes, in order
        self.of = list(range(len(nodes)))  # node -> its group
        self.members = {i: [i] for i in self.of}
        self._bits = {i: 1 << i for i in self.of}
        self._needs: dict[int, int] = {}  # group -> the nodes it depends on, directly or not
        self._feeds = dict.fromkeys(self.of, 0)  # group -> the nodes that depend on it
        self._from: dict[int, set[int]] = {}  # group -> the nodes it reads from
        for i, node in enumerate(nodes):
            self._from[i] = sources = {p for v in node.inputs if (p := self.producer.get(id(v))) is not None}
            needs = 0
            for p in sources:
                needs |= self._needs[p] | 1 << p
            self._needs[i] = needs
            for key in {id(v) for v in node.inputs}:
                self.readers.setdefault(key, []).append(i)
        for i in reversed(self.of):
            for p in self._from[i]:
                self._feeds[p] |= self._feeds[i] | 1 << i

    def legal(self, groups: Iterable[int]) -> bool:
        """Whether these groups may be one: no way leads from one of them to another through a group outside."""
        groups = set(groups)
        bits = self._union(groups)
        around = {self.of[p] for g in groups for p in self._from[g]} - groups
        return not any(self._needs[p] & bits for p in around)

    def merge(self, groups: Iterable[int]) -> int:
        """Make one group of several (which must be legal); its name is the first of theirs."""
        first, *others = every = sorted(set(groups))
        bits = self._union(every)
        needs, before = _union_and_partial([self._needs[g] for g in every], bits)
        feeds, after = _union_and_partial([self._feeds[g] for g in every], bits)
        for g in others:
            self.members[first] += self.members.pop(g)
            self._from[first] |= self._from.pop(g)
            del self._needs[g], self._feeds[g], self._bits[g]
        self.members[first].sort()
        self._from[first] -= set(self.members[first])
        for i in self.members[first]:
            self.of[i] = first
        self._needs[first], self._feeds[first], self._bits[first] = needs, feeds, bits
        for g in {self.of[i] for i in _set_bits(after)}:
            self._needs[g] |= needs | bits
        for g in {self.of[i] for i in _set_bits(before)}:
            self._feeds[g] |= feeds | bits
        return first

    def _union(self, groups: Iterable[int]) -> int:
        bits = 0
        for g in groups:
            bits |= self._bits[g]
        return bits

    def seen_outside(self, members: Sequence[int], wanted: set[int]) -> list[Value]:
        """The values of some nodes that others read, or that are wanted (ids)."""
        inside = set(members)
        return [
            v
            for i in members
            for v in self.nodes[i].outputs
            if id(v) in wanted or any(r not in inside for r in self.readers.get(id(v), ()))
        ]

    def order(self) -> list[int]:
        """The groups in an order in which each reads only what is there, otherwise that of their last members; those
        of the phase "once" come first, those with a node of the phase "update" last."""
        rank = {g: (max(_PHASE_ORDER.get(self.nodes[i].phase, 0) for i in m), m[-1]) for g, m in self.members.items()}
        waits = {g: len({self.of[p] for p in self._from[g]}) for g in self.members}
        followers: dict[int, list[int]] = {g: [] for g in self.members}
        for g in self.members:
            for source in {self.of[p] for p in self._from[g]}:
                followers[source].append(g)
        ready = [(rank[g], g) for g, n in waits.items() if n == 0]
        heapify(ready)
        made = []
        while ready:
            _, g = heappop(ready)
            made.append(g)
            for f in followers[g]:
                waits[f] -= 1
                if waits[f] == 0:
                    heappush(ready, (rank[f], f))
        return made


def _union_and_partial(sets: Sequence[int], bits: int) -> tuple[int, int]:
    """What is in any of the sets, and what is not in all of them, both without ``bits``."""
    some, every = 0, -1
    for one in sets:
        some, every = some | one, every & one
    return some & ~bits, some & ~every & ~bits


def _set_bits(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
