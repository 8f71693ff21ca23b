"""Pairs of layers by order and shape: a proposal where names say nothing, taken only when it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.model.loading.file_layers import FileLayer
from prototorch.model.loading.layout.pairing import Pairing
from prototorch.model.loading.net_layers import NetLayer

__all__ = ["OrderMatch"]


@dataclass
class OrderMatch:
    """Pairs of a layer of the net and one of the file, by their indices, in the net's order.

    pairings: of all layers of the net; those without a partner are missing.
    """

    layers: Sequence[NetLayer]
    file_layers: Sequence[FileLayer]
    pairs: dict[int, int]
    pairings: list[Pairing]

    @property
    def is_complete(self) -> bool:
        """Whether every layer of the net and of the file has its partner."""
        return len(self.pairs) == len(self.layers) == len(self.file_layers)

    @property
    def crossing(self) -> bool:
        """Whether the pairs come in another order in the file than in the net."""
        partners = list(self.pairs.values())
        return partners != sorted(partners)

    def ambiguous(self) -> list[list[str]]:
        """Groups of layers of the net that have the same class and shapes."""
        groups: dict[object, list[str]] = defaultdict(list)
        for index in self.pairs:
            layer = self.layers[index]
            groups[layer.kind, tuple(layer.shapes.items())].append(layer.key)
        return [names for names in groups.values() if len(names) > 1]

    def names(self) -> list[tuple[str, str]]:
        """The names in the file and in the net of each pair."""
        return [(self.file_layers[theirs].name, self.layers[ours].key) for ours, theirs in self.pairs.items()]
