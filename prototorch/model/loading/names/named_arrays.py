"""The second stage: the arrays of a file that have the names of a net's weights, by the systems that may have written
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prototorch.graph.net import Net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.model.loading.assign.checked import Assignment
from prototorch.model.loading.file_layers import split_name
from prototorch.model.loading.layout.data_format import data_format_note, with_data_format
from prototorch.model.loading.layout.laid_out import LaidOutWeights
from prototorch.model.loading.layout.layout_table import LayoutTable
from prototorch.model.loading.layout.order_match import OrderMatch
from prototorch.model.loading.layout.pairing import Pairing
from prototorch.model.loading.layout.systems import candidate_tables, choose_table
from prototorch.model.loading.names.automatic_names import pair_automatic_names
from prototorch.model.loading.names.by_name import NameMatch, match_names
from prototorch.model.loading.names.by_order import match_class_order, match_order
from prototorch.model.loading.names.renaming import Renaming
from prototorch.model.loading.net_layers import NetLayer, find_net_layers
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.name_rules import Rules
from prototorch.schema.patterns import matches_below

__all__ = ["NamedArrays"]


@dataclass(frozen=True)
class NamedArrays:
    """The arrays of a file by the weights of a net whose names they have.

    systems: the names by each system that may have written the file, one where it is known. net_weights: the specs of
    the net's weights by name. except_: patterns of weights of the net that keep their values. has_stated_system:
    whether the caller told the system.
    """

    file: WeightFile
    net: Net
    net_weights: Mapping[str, WeightSpec]
    rules: Rules | None
    systems: tuple[tuple[LayoutTable, SystemNames], ...]
    except_: Sequence[str] = ()
    has_stated_system: bool = False

    @classmethod
    def find(
        cls,
        file: WeightFile,
        net: Net,
        net_weights: Mapping[str, WeightSpec],
        rules: Rules | None = None,
        *,
        system: str | None = None,
        data_format: str | None = None,
        by_order: bool = False,
        except_: Sequence[str] = (),
    ) -> NamedArrays:
        """The array for each weight of a net: by declared rules, else by name.

        rules: names of the file that are others in the net. system: whose layouts the arrays have ("torch", "keras",
        "prototorch"); None: the one that the file tells. data_format: the order of the axes of Keras' images, for a
        file that does not tell it. by_order: pair by order, kind and shape, not by name.
        Raises WeightsError where names of the file are ambiguous, UsageError for wrong rules and an unknown system.
        """
        tables = candidate_tables(file, system)
        if len(tables) == 1:
            file = tables[0].adapt_file(file, {node.weights_key for node in net.nodes})
        if data_format is not None:
            file = with_data_format(file, data_format, tables)
        shapes = {name: weight.spec.shape for name, weight in net_weights.items()}
        systems = []
        for table in tables:
            layers = find_net_layers(net, net_weights, table.net_layouts(net, shapes, file.metadata))
            systems.append((table, SystemNames.find(layers, table, file, rules, by_order)))
        return cls(file, net, net_weights, rules, tuple(systems), except_, system is not None)

    def lay_out(self) -> LaidOutWeights:
        """The weights in the layouts of the system that wrote the file; what does not match is part of the result.

        Raises WeightsError where the file does not tell its system and shapes do not decide, UsageError for a pattern
        of ``except_`` that matches no weight.
        """
        table, names = choose_table(self.file, self.systems, lambda one: one.rank, lambda one: one.content)
        result = names.result(table, self.rules)
        shapes = {name: weight.spec.shape for name, weight in self.net_weights.items()}
        notes = []
        if table.system == "keras" and result.assignments:
            notes.append(data_format_note(self.file, table, self.net, shapes))
        if len(self.systems) > 1 and result.assignments:
            notes.append(f"the names and layouts are taken to be those of {table.system}")
        notes = [note for note in notes if note]
        result = replace(result, notes=(*notes, *result.notes), has_stated_system=self.has_stated_system)
        return result.excluding(self.except_)


@dataclass
class SystemNames:
    """The arrays that have the names of a net's weights, if one system wrote the file."""

    layers: list[NetLayer]
    file: WeightFile
    pairings: list[Pairing]
    notes: list[str]
    renaming: Renaming
    proposal: OrderMatch | None

    @classmethod
    def find(
        cls, layers: list[NetLayer], table: LayoutTable, file: WeightFile, rules: Rules | None, by_order: bool
    ) -> SystemNames:
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
        if table.system == "keras" and rules is None:
            notes += pair_automatic_names(layers, name_match, table, file)
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

    def result(self, table: LayoutTable, rules: Rules | None) -> LaidOutWeights:
        """The weights in the layouts of the system."""
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
        return LaidOutWeights(
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
