"""`match_weights`: which array of a file is which weight of a net."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.model.loading.file_layers import split_name
from prototorch.model.loading.layout.data_format import data_format_note, with_data_format
from prototorch.model.loading.layout.layout_table import LayoutTable
from prototorch.model.loading.layout.pairing import Assignment, Mismatch, Pairing
from prototorch.model.loading.layout.systems import candidate_tables, choose_table
from prototorch.model.loading.names.automatic_names import drop_automatic_names
from prototorch.model.loading.names.by_name import NameMatch, match_names
from prototorch.model.loading.names.by_order import OrderMatch, match_class_order, match_order
from prototorch.model.loading.names.renaming import Renaming
from prototorch.model.loading.net_layers import NetLayer, find_net_layers
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.name_rules import MapRule, Rules
from prototorch.schema.patterns import check_patterns, includes, matches_below

__all__ = ["Match", "match_weights"]


@dataclass(frozen=True)
class Match:
    """Which arrays of a file are which weights of a net; nothing has been read or changed yet.

    system: whose layouts the arrays have. missing: weights of the net that the file does not have. unexpected: arrays
    of the file that the net does not have. mismatched: weights whose arrays have other shapes. rejected: arrays that
    the layer they are named after cannot have, with the reason. excluded: weights that ``except`` leaves out.
    notes: what was assumed, a sentence each. proposal: the pairs by order and shape, where names do not match the
    whole net. has_stated_system: whether the caller told the system, so that the file's own word does not count.
    """

    file: WeightFile
    system: str
    assignments: tuple[Assignment, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[Mismatch, ...]
    rejected: Mapping[str, str]
    excluded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unused_rules: tuple[MapRule, ...] = ()
    proposal: OrderMatch | None = None
    has_stated_system: bool = False

    @property
    def loaded(self) -> tuple[str, ...]:
        """The names of the weights that are read from the file."""
        return tuple(name for assignment in self.assignments for name in assignment.ours)

    @property
    def transposed(self) -> dict[str, str]:
        """What changes the arrays on their way, by the names of the weights ("transposed (1, 0)")."""
        return {name: text for a in self.assignments if (text := str(a.transform)) for name in a.ours}

    @property
    def is_complete(self) -> bool:
        """Whether every weight has its array, and every array its weight."""
        return not (self.missing or self.unexpected or self.mismatched or self.rejected or self.unused_rules)

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The weights by name, in our layouts, one after the other; the element types are those of the file."""
        for assignment in self.assignments:
            yield from zip(assignment.ours, assignment.read(self.file), strict=True)

    def excluding(self, patterns: Sequence[str]) -> Match:
        """The match without the weights that patterns of names include (``except``): they keep their values.

        Raises UsageError for a pattern that matches no weight of the net.
        """
        if not patterns:
            return self
        names = [*self.loaded, *self.missing, *(m.name for m in self.mismatched)]
        check_patterns(patterns, names, "weight of the net")
        out = {name for name in names if includes(patterns, name)}
        assignments = []
        for assignment in self.assignments:
            if out.isdisjoint(assignment.ours):
                assignments.append(assignment)
            elif not out.issuperset(assignment.ours):
                raise UsageError(
                    f"{', '.join(assignment.ours)} are one array in the file ({', '.join(assignment.theirs)}); except "
                    "must name all of them or none"
                )
        arrays = {m.array for m in self.mismatched if m.name in out}
        return replace(
            self,
            assignments=tuple(assignments),
            missing=tuple(n for n in self.missing if n not in out),
            mismatched=tuple(m for m in self.mismatched if m.name not in out),
            rejected={name: reason for name, reason in self.rejected.items() if name not in arrays},
            excluded=(*self.excluded, *(n for n in names if n in out)),
        )


def match_weights(
    file: WeightFile,
    net_weights: Mapping[str, WeightSpec],
    net: Net,
    rules: Rules | None = None,
    *,
    system: str | None = None,
    by_order: bool = False,
    except_: Sequence[str] = (),
    data_format: str | None = None,
) -> Match:
    """Find the array for each weight of a net: by declared rules, else by name.

    net_weights: the specs of the net's weights by name. rules: names of the file that are others in the net. system:
    whose names and layouts the arrays have ("torch", "keras", "prototorch"), for a file that does not tell; by default
    it is inferred from the names. data_format: the order of the axes of Keras' images, for a file that does not tell.
    by_order: take the pairs by order, kind and shape, not by name. except_: patterns of weights of the net that keep
    their values.

    What does not match is part of the result; `prototorch.model.loading.layout.laid_out` makes errors and texts of it.
    Raises WeightsError where the file is ambiguous, UsageError for wrong rules.
    """
    tables = candidate_tables(file, system)
    if len(tables) == 1:
        file = tables[0].adapt_file(file, {node.weights_key for node in net.nodes})
    shapes = {name: weight.spec.shape for name, weight in net_weights.items()}
    if data_format is not None:
        file = with_data_format(file, data_format, tables)

    def match(table: LayoutTable) -> _Candidate:
        layers = find_net_layers(net, net_weights, table.net_layouts(net, shapes, file.metadata))
        return _Candidate.find(layers, table, file, rules, by_order)

    table, best = choose_table(file, tables, match, lambda c: c.rank, lambda c: c.content)
    result = best.result(table, rules)
    if len(tables) > 1 and result.assignments:
        note = f"the names and layouts are taken to be those of {table.system}"
        result = replace(result, notes=(note, *result.notes))
    if table.system == "keras" and result.assignments and (note := data_format_note(file, table, net, shapes)):
        result = replace(result, notes=(note, *result.notes))
    return replace(result, has_stated_system=system is not None).excluding(except_)


@dataclass
class _Candidate:
    """The match by one system's table."""

    layers: list[NetLayer]
    file: WeightFile
    pairings: list[Pairing]
    notes: list[str]
    renaming: Renaming
    proposal: OrderMatch | None

    @classmethod
    def find(
        cls, layers: list[NetLayer], table: LayoutTable, file: WeightFile, rules: Rules | None, by_order: bool
    ) -> _Candidate:
        renaming = Renaming(None if by_order else rules)
        if file.metadata.get("names") == "class order" and rules is None:
            order_match = match_class_order(layers, table, file)
            if order_match is not None and not by_order:
                note = "the file has no names of layers: the k-th layer of a class is the k-th of this class in the net"
                return cls(layers, file, order_match.pairings, [note], renaming, None)
        if by_order:
            order_match = match_order(layers, table, file)
            return cls(layers, file, order_match.pairings, ["paired by order, kind and shape"], renaming, order_match)
        name_match = match_names(layers, table, file, renaming)
        notes = _prefix_notes(name_match)
        if (
            table.system == "keras"
            and rules is None
            and (dropped_keys := drop_automatic_names(layers, name_match, file))
        ):
            notes.append(
                f"{dropped_keys[0]!r} and {len(dropped_keys) - 1} more names only count the layers of a class, which "
                "are others in the file: such names say nothing"
            )
        complete = all(p.is_complete for p in name_match.pairings)
        proposal = None if complete or rules is not None else match_order(layers, table, file)
        return cls(layers, file, name_match.pairings, notes, renaming, proposal)

    @property
    def rank(self) -> tuple[int, int]:
        ranks = [p.rank for p in self.pairings]
        proposed = 0 if self.proposal is None else len(self.proposal.pairs)
        return sum(fitting for _, fitting in ranks), sum(is_found for is_found, _ in ranks) + proposed

    @property
    def content(self) -> dict[str, Assignment]:
        pairings = self.pairings
        if self.proposal is not None and not any(p.assignments for p in pairings):
            pairings = self.proposal.pairings
        return {a.ours[0]: a for p in pairings for a in p.assignments}

    def result(self, table: LayoutTable, rules: Rules | None) -> Match:
        """The match as a whole."""
        used = {name for p in self.pairings for name in p.arrays}
        rejected = {name: reason for p in self.pairings for name, reason in p.rejected.items()}
        unexpected = []
        for name, array in self.file.arrays.items():
            parts = table.split_name(name)
            if name in used or parts[-1] in table.ignored or _is_ignored(parts, rules):
                continue
            if array.storage is not None and _has_twin(name, used, self.file):
                continue
            unexpected.append(name)
        reasons = [
            f"{layer.key}: {reason}"
            for layer, pairing in zip(self.layers, self.pairings, strict=True)
            if pairing.rank == (0, 0) and (reason := layer.reason(table))
        ]
        return Match(
            self.file,
            table.system,
            tuple(a for p in self.pairings for a in p.assignments),
            tuple(n for p in self.pairings for n in p.missing),
            tuple(unexpected),
            tuple(m for p in self.pairings for m in p.mismatched),
            rejected,
            notes=(*self.notes, *reasons),
            unused_rules=tuple(self.renaming.unused()),
            proposal=self.proposal,
        )


def _has_twin(name: str, used: set[str], file: WeightFile) -> bool:
    """Whether the array is a second name of one that is used: tied weights."""
    one = file.arrays[name]
    twins = (n for n in used if file.arrays[n].storage == one.storage and file.arrays[n].shape == one.shape)
    return any(np.array_equal(file[name], file[twin]) for twin in twins)


def _is_ignored(parts: tuple[str, ...], rules: Rules | None) -> bool:
    name = "/".join(parts)
    return rules is not None and any(matches_below("/".join(split_name(p)), name) for p in rules.ignore)


def _prefix_notes(match: NameMatch) -> list[str]:
    notes = []
    if match.prefix:
        notes.append(f"{'.'.join(match.prefix)!r} in front of the file's names is left out")
    if match.outer:
        notes.append(f"{'/'.join(match.outer)!r} in front of the net's names is left out")
    return notes
