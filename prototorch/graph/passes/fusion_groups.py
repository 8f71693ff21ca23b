"""A partition of a graph's nodes into groups, such that an order of the groups always remains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from prototorch.graph.ir import PHASE_ORDER, Node, Value

__all__ = ["FusionGroups"]


class FusionGroups:
    """A partition of nodes, each in a group of its own at first. Nodes and groups are known by numbers; a set of nodes
    is the bits of an integer.

    ``nodes`` are in an order in which each reads only what is defined before it.
    """

    def __init__(self, nodes: Sequence[Node]):
        self.nodes = nodes
        self.producer = {v: i for i, node in enumerate(nodes) for v in node.outputs}
        self.readers: dict[Value, list[int]] = {}  # value -> nodes, in order
        self.group_of = list(range(len(nodes)))  # node -> its group
        self.members = {i: [i] for i in self.group_of}
        self._bits = {i: 1 << i for i in self.group_of}
        self._ancestors: dict[int, int] = {}  # group -> the nodes it depends on, directly or not
        self._descendants = dict.fromkeys(self.group_of, 0)  # group -> the nodes that depend on it
        self._sources: dict[int, set[int]] = {}  # group -> the nodes it reads from
        for i, node in enumerate(nodes):
            self._sources[i] = sources = {p for v in node.inputs if (p := self.producer.get(v)) is not None}
            ancestors = 0
            for p in sources:
                ancestors |= self._ancestors[p] | 1 << p
            self._ancestors[i] = ancestors
            for v in dict.fromkeys(node.inputs):
                self.readers.setdefault(v, []).append(i)
        for i in reversed(self.group_of):
            for p in self._sources[i]:
                self._descendants[p] |= self._descendants[i] | 1 << i

    def can_merge(self, groups: Iterable[int]) -> bool:
        """Whether these groups may be one: no path leads from one of them to another through a group outside."""
        groups = set(groups)
        bits = self._union(groups)
        around = {self.group_of[p] for g in groups for p in self._sources[g]} - groups
        return not any(self._ancestors[p] & bits for p in around)

    def merge(self, groups: Iterable[int]) -> int:
        """Make one group of several (for which `can_merge` holds); its number is the first of theirs."""
        first, *others = members = sorted(set(groups))
        bits = self._union(members)
        ancestors, before = _union_and_partial([self._ancestors[g] for g in members], bits)
        descendants, after = _union_and_partial([self._descendants[g] for g in members], bits)
        for g in others:
            self.members[first] += self.members.pop(g)
            self._sources[first] |= self._sources.pop(g)
            del self._ancestors[g], self._descendants[g], self._bits[g]
        self.members[first].sort()
        self._sources[first] -= set(self.members[first])
        for i in self.members[first]:
            self.group_of[i] = first
        self._ancestors[first], self._descendants[first], self._bits[first] = ancestors, descendants, bits
        for g in {self.group_of[i] for i in _set_bits(after)}:
            self._ancestors[g] |= ancestors | bits
        for g in {self.group_of[i] for i in _set_bits(before)}:
            self._descendants[g] |= descendants | bits
        return first

    def _union(self, groups: Iterable[int]) -> int:
        bits = 0
        for g in groups:
            bits |= self._bits[g]
        return bits

    def live_out(self, members: Sequence[int], results: Iterable[Value]) -> list[Value]:
        """The values of some nodes that others read, or that are results of the graph."""
        inside = set(members)
        return [
            v
            for i in members
            for v in self.nodes[i].outputs
            if v in results or any(r not in inside for r in self.readers.get(v, ()))
        ]

    def order(self) -> list[int]:
        """The groups in an order in which each reads only what is defined before it, otherwise that of their last
        members; those of the phase "setup" come first, those with a node of the phase "update" last."""
        rank = {g: (max(PHASE_ORDER[self.nodes[i].phase] for i in m), m[-1]) for g, m in self.members.items()}
        waits = {g: len({self.group_of[p] for p in self._sources[g]}) for g in self.members}
        followers: dict[int, list[int]] = {g: [] for g in self.members}
        for g in self.members:
            for source in {self.group_of[p] for p in self._sources[g]}:
                followers[source].append(g)
        ready = [(rank[g], g) for g, n in waits.items() if n == 0]
        heapify(ready)
        sequence = []
        while ready:
            _, g = heappop(ready)
            sequence.append(g)
            for f in followers[g]:
                waits[f] -= 1
                if waits[f] == 0:
                    heappush(ready, (rank[f], f))
        return sequence


def _union_and_partial(sets: Sequence[int], bits: int) -> tuple[int, int]:
    """What is in any of the sets, and what is in some but not in all of them, both without ``bits``."""
    union, common = 0, -1
    for one in sets:
        union, common = union | one, common & one
    return union & ~bits, union & ~common & ~bits


def _set_bits(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
