"""Names that only count the layers of a class: Keras counts from ``dense`` on, we count from ``dense_1`` on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from prototorch.model.loading.layout.pairing import Pairing
from prototorch.model.loading.names.by_name import NameMatch
from prototorch.model.loading.net_layers import NetLayer
from prototorch.model.loading.weight_file import WeightFile
from prototorch.text.case_conversion import snake_case

__all__ = ["drop_automatic_names"]


def drop_automatic_names(layers: Sequence[NetLayer], match: NameMatch, file: WeightFile) -> list[str]:
    """Undo the pairs by automatic names of the classes whose automatic names are not the same in the file and the net.

    Keras' ``dense_1`` is the second layer of its class, ours the first, so that equal names would be other layers. A
    net that has a ``dense``, too, has Keras' names. Returns the names of the layers that lost their pairs.
    """
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        if re.fullmatch(rf"{snake_case(layer.kind)}_\d+", layer.key.rpartition("/")[2]):
            numbers[snake_case(layer.kind)].append(number)
    dropped_keys = []
    names = {layer.key.rpartition("/")[2] for layer in layers}
    for word, group in numbers.items():
        if word in names:
            continue
        theirs = sum(re.fullmatch(rf"{word}(_\d+)?", one.name.rpartition("/")[2]) is not None for one in file.layers)
        if theirs == len(group) and all(match.pairings[number].is_complete for number in group):
            continue
        for number in group:
            if match.pairings[number].arrays:
                match.pairings[number] = Pairing(missing=layers[number].weight_names())
                dropped_keys.append(layers[number].key)
    return dropped_keys
