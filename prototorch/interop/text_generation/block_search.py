"""Sequences of statements that repeat become blocks: each time the one that shortens the text most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.interop.text_generation.arguments import Arguments, block_arguments, slots
from prototorch.interop.text_generation.block_names import BlockNames
from prototorch.interop.text_generation.name_parts import common_prefix
from prototorch.interop.text_generation.signatures import Signatures, statement_cost
from prototorch.interop.text_generation.statements import (
    REPEAT,
    USE,
    BlockDraft,
    Reference,
    Statement,
    StatementList,
    all_names,
)
from prototorch.layers.affine_norm import AffineNormLayer

__all__ = ["BlockSearch", "begins_well"]

_MAX_LENGTH = 32  # statements of a block
_MOST_CANDIDATES = 16  # candidates of a round whose arguments are computed
_DEFINITION = 6  # the cost of a block's first and last line


def begins_well(item: Statement) -> bool:
    """Whether a person would begin a block or a repeat with this statement."""
    layer = item.layer_class
    return layer is None or not layer.follows_layer


@dataclass(slots=True)
class _Occurrence:
    body: StatementList
    start: int
    items: list[Statement]
    references: tuple[Any, ...] = ()  # what each reading by name reads: a layer inside (its order) or outside
    outside: tuple[Reference, ...] = ()
    bottom: Reference | None = None  # what the first statement reads, where that has a name
    prefix: tuple[str, ...] | None = None
    names: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True)
class _Candidate:
    occurrences: list[_Occurrence]
    arguments: Arguments
    saving: float


class BlockSearch:
    """Finds blocks in the bodies of a text, and replaces what they stand for.

    readings: how often each layer is read by its name in the whole text, as an output of the net included.
    defaults: values that may be left out, by head and field; those of new blocks are added.
    """

    def __init__(
        self, top: StatementList, readings: Counter[int], defaults: dict[tuple[str, str], Any], signatures: Signatures
    ):
        self.top = top
        self.blocks: list[BlockDraft] = []
        self.readings = readings
        self.defaults = defaults
        self.signatures = signatures
        self.names = BlockNames()
        self.taken_names: dict[int, set[str]] = {}  # of a body: the names in the same block, or outside all blocks

    def bodies(self) -> Iterator[StatementList]:
        """All sequences of the text."""
        for root in (*(block.body for block in self.blocks), self.top):
            yield from root.bodies()

    def replace_best(self) -> bool:
        """Make the block that shortens the text most; False where none does."""
        best: _Candidate | None = None
        groups = self.repeated_sequences()
        for limit, group in groups[:_MOST_CANDIDATES]:
            if best is not None and limit <= best.saving:
                break
            candidate = self.candidate(group)
            if candidate is not None and candidate.saving > 0 and (best is None or candidate.saving > best.saving):
                best = candidate
        if best is None:
            return False
        self.make_block(best)
        return True

    # ------------------------------------------------------------------ candidates

    def repeated_sequences(self) -> list[tuple[float, list[_Occurrence]]]:
        """Sequences that occur at least twice, with an upper bound of what a block saves; the best first."""
        bodies = list(self.bodies())
        self.note_names()
        first = [[self.signatures.of(item, True) for item in body.items] for body in bodies]
        later = [[self.signatures.of(item) for item in body.items] for body in bodies]
        costs = [[statement_cost(item, self.defaults) for item in body.items] for body in bodies]
        groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        for number, body in enumerate(bodies):
            for start in range(len(body.items)):
                groups[first[number][start]].append((number, start))
        result = []
        current = [(ids, 0) for ids in groups.values() if len(ids) > 1]
        for length in range(1, _MAX_LENGTH + 1):
            following: list[tuple[list[tuple[int, int]], int]] = []
            for positions, cost_before in current:
                apart = _without_overlaps(positions, length)
                number, start = positions[0]
                cost = cost_before + costs[number][start + length - 1]
                items = bodies[number].items[start : start + length]
                if len(apart) > 1 and (length > 1 or items[0].bodies) and not self._is_periodic(items):
                    limit = float((len(apart) - 1) * cost - _DEFINITION - 3 * len(apart))
                    if limit > 0:
                        result.append((limit * _quality(items, _before(bodies[number], start)), bodies, apart, length))
                extended: dict[int, list[tuple[int, int]]] = defaultdict(list)
                for number, start in positions:
                    if start + length < len(later[number]):
                        extended[later[number][start + length]].append((number, start))
                following.extend((ids, cost) for ids in extended.values() if len(ids) > 1)
            current = following
        result.sort(key=lambda entry: -entry[0])
        return [
            (limit, [_Occurrence(bodies[n], s, bodies[n].items[s : s + length]) for n, s in apart])
            for limit, bodies, apart, length in result[: 2 * _MOST_CANDIDATES]
        ]

    def note_names(self) -> None:
        """Note the names that a new block's use may not have."""
        for root in (*(block.body for block in self.blocks), self.top):
            names = {"".join(item.name) for body in root.bodies() for item in body.items if item.name is not None}
            self.taken_names.update((id(body), names) for body in root.bodies())

    def _is_periodic(self, items: Sequence[Statement]) -> bool:
        """Whether a sequence consists of copies of a shorter one."""
        keys = [self.signatures.of(item) for item in items]
        return any(
            len(keys) % period == 0 and keys == keys[:period] * (len(keys) // period)
            for period in range(1, len(keys) // 2 + 1)
        )

    def candidate(self, group: list[_Occurrence]) -> _Candidate | None:
        """The block for those of the occurrences that agree in wiring and names; None where none do."""
        alike: dict[Any, list[_Occurrence]] = defaultdict(list)
        for occurrence in group:
            if self.complete_occurrence(occurrence):
                alike[occurrence.references, occurrence.names, occurrence.prefix is None].append(occurrence)
        candidates = [self.evaluate(occurrences) for occurrences in alike.values() if len(occurrences) > 1]
        return max((c for c in candidates if c is not None), key=lambda c: c.saving, default=None)

    def complete_occurrence(self, occurrence: _Occurrence) -> bool:
        """Determine what an occurrence reads from outside, and its names; False where it can be no block."""
        items = occurrence.items
        inside = {part.exit: i for i, part in enumerate(p for item in items for p in item.walk())}
        nodes = {node for item in items for node in item.nodes}
        readings: Counter[int] = Counter()
        labels: list[Any] = []
        outside: list[Reference] = []
        for item in items:
            for reference in item.references():
                readings[reference.node] += 1
                if reference.node in inside:
                    labels.append(("inside", inside[reference.node], reference.top))
                elif reference.node in nodes:
                    return False
                else:
                    if reference not in outside:
                        outside.append(reference)
                    labels.append(("outside", outside.index(reference), reference.top))
        last = items[-1].exit
        for node in nodes:
            if node != last and self.readings[node] > readings[node]:
                return False
        if readings[last]:
            return False
        first = items[0]
        if first.bottoms is not None and len(first.bottoms) == 1 and labels and labels[0][0] == "outside":
            if labels.count(labels[0]) > 1:
                return False
            occurrence.bottom = outside.pop(0)
            labels = [(kind, n - (kind == "outside"), top) for kind, n, top in labels[1:]]
        occurrence.references, occurrence.outside = tuple(labels), tuple(outside)
        names = all_names(items)
        if names:
            loops = {part.head for item in items for part in item.walk() if part.kind == REPEAT}
            shared = common_prefix(names, loops)
            if shared is None or "".join(shared[0]) in self.taken_names[id(occurrence.body)]:
                return False
            occurrence.prefix, occurrence.names = shared
        return True

    def evaluate(self, occurrences: list[_Occurrence]) -> _Candidate | None:
        prefixes = [o.prefix for o in occurrences if o.prefix is not None]
        if len(set(prefixes)) < len(prefixes):
            return None
        members = slots(occurrences[0].items, self.defaults)
        columns = list(zip(*([n for item in o.items for n in item.numbers()] for o in occurrences), strict=True))
        arguments = block_arguments(columns, members)
        if arguments is None:
            return None
        before = sum(statement_cost(item, self.defaults) for o in occurrences for item in o.items)
        numbers = iter(arguments.body)
        body = [item.substitute(numbers) for item in occurrences[0].items]
        outside = len(occurrences[0].outside)
        after = _DEFINITION + sum(statement_cost(item, self.defaults) for item in body) + len(arguments.names) + outside
        after += sum(3 + (o.prefix is not None) + outside for o in occurrences)
        for values, default in zip(arguments.values, arguments.defaults, strict=True):
            after += sum(default is None or value != default for value in values)
        saving = before - after
        quality = _quality(occurrences[0].items, _before(occurrences[-1].body, occurrences[-1].start))
        return _Candidate(occurrences, arguments, saving * quality)

    # ------------------------------------------------------------------ replacement

    def make_block(self, candidate: _Candidate) -> None:
        """Define the block of a candidate, and put uses in the place of its occurrences."""
        occurrences, arguments = candidate.occurrences, candidate.arguments
        one = occurrences[0]
        name = self.names.name_for(one.items, [o.prefix for o in occurrences if o.prefix is not None])
        outside = ["from"] if len(one.outside) == 1 else [f"input_{i}" for i in range(1, len(one.outside) + 1)]
        numbers, names = iter(arguments.body), iter(one.names)
        items = [item.substitute(numbers, names if one.prefix is not None else None) for item in one.items]
        if one.bottom is not None:
            items[0] = replace(items[0], bottoms=None)
        texts = {reference: f"${argument}" for reference, argument in zip(one.outside, outside, strict=True)}
        defaults = [(a, d) for a, d in zip(arguments.names, arguments.defaults, strict=True)]
        self.defaults.update({(name, a): d for a, d in defaults if d is not None})
        uses = [self.use(name, outside, arguments, number, o) for number, o in enumerate(occurrences)]
        for occurrence, use in sorted(zip(occurrences, uses, strict=True), key=lambda pair: -pair[0].start):
            occurrence.body.items[occurrence.start : occurrence.start + len(occurrence.items)] = [use]
        body = StatementList([item.with_references(texts) for item in items])
        self.blocks.append(BlockDraft(name, [*((a, None) for a in outside), *defaults], body))

    def use(
        self, name: str, outside: list[str], arguments: Arguments, number: int, occurrence: _Occurrence
    ) -> Statement:
        """The use of a new block in the place of an occurrence."""
        fields: list[tuple[str, Any]] = list(zip(outside, occurrence.outside, strict=True))
        fields += [(a, values[number]) for a, values in zip(arguments.names, arguments.values, strict=True)]
        nodes = tuple(node for item in occurrence.items for node in item.nodes)
        bottoms = None if occurrence.bottom is None else (occurrence.bottom,)
        return Statement(USE, name, tuple(fields), occurrence.items[-1].exit, nodes, occurrence.prefix, bottoms)


def _before(body: StatementList, start: int) -> Statement | None:
    return body.items[start - 1] if start else None


def _without_overlaps(positions: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for number, start in positions:
        if not result or result[-1][0] != number or result[-1][1] + length <= start:
            result.append((number, start))
    return result


def _quality(items: Sequence[Statement], before: Statement | None) -> float:
    """A factor on what a block saves: less where a person would not begin it there."""
    if not begins_well(items[0]):
        return 0.4
    layer, layer_before = items[0].layer_class, None if before is None else before.layer_class
    is_norm = layer is not None and issubclass(layer, AffineNormLayer)
    return 0.5 if is_norm and layer_before is not None and layer_before.bias_axis is not None else 1.0
