"""The names that Keras itself gives to layers without one: ``dense`` for the first of a class, then ``dense_1``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from prototorch.graph.net import LayerNode
from prototorch.interop.keras.weight_names import key_of_class
from prototorch.model.loading.names.automatic_names import automatic_number
from prototorch.text.case_conversion import snake_case

__all__ = ["default_names"]


def default_names(layers: Mapping[str, tuple[str, LayerNode | None]]) -> dict[str, str]:
    """Keras' names of the nodes that have automatic names of ours, by the nodes' names; others are left out.

    layers: the class in Keras and the node of each layer, by its name in Keras. Automatic are names that count the
    layers of our class from 1 on without a gap (``dense_1``, ``dense_2``); a net with a ``dense``, too, has Keras'
    names already. A class keeps its names where one of Keras' is that of another layer, or where Keras' word is another
    (``grouped_query_attention``), by which a file would not be read here.
    """
    numbers: dict[str, dict[int, tuple[str, str]]] = defaultdict(dict)
    for kind, node in layers.values():
        if node is not None:
            word = snake_case(node.layer.type_name())
            number = automatic_number(node.name, word)
            if number is not None and "/" not in node.name:
                numbers[word].setdefault(number, (node.name, kind))
    nodes_of_class: dict[str, list[str]] = defaultdict(list)
    for our_word, by_number in numbers.items():
        if sorted(by_number) == list(range(1, len(by_number) + 1)):
            for _, (name, kind) in sorted(by_number.items()):
                key = key_of_class(kind)
                if automatic_number(key, our_word) == 0:
                    nodes_of_class[key].append(name)
    automatic = {name for names in nodes_of_class.values() for name in names}
    other_names = set(layers) - automatic
    result: dict[str, str] = {}
    for word, names in nodes_of_class.items():
        new_names = [f"{word}_{k}" if k else word for k in range(len(names))]
        if other_names.isdisjoint(new_names):
            result |= dict(zip(names, new_names, strict=True))
    return result
