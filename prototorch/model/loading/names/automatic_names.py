"""Names that only count the layers of a class: Keras counts from ``dense`` on, we count from ``dense_1`` on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from prototorch.model.loading.file_layers import FileLayer, find_file_layers
from prototorch.model.loading.layout.layout_table import LayoutTable
from prototorch.model.loading.layout.pairing import Pairing, pair_layer
from prototorch.model.loading.names.by_name import NameMatch
from prototorch.model.loading.net_layers import NetLayer
from prototorch.model.loading.weight_file import WeightFile
from prototorch.text.case_conversion import snake_case

__all__ = ["automatic_number", "pair_automatic_names"]

_Class = tuple[tuple[str, ...], str]  # the model or block that a layer is in, and the word for the layer's class


def automatic_number(name: str, word: str) -> int | None:
    """The number of a name that counts the layers of a class, 0 for the word alone (``dense``: 0, ``dense_1``: 1); None
    for another name. word: that of the class; its underscores do not count (``p_re_lu`` of Keras is our ``prelu``)."""
    stem = re.fullmatch(r"(.*?)(?:_([0-9]{1,9}))?", name, re.DOTALL)
    if stem is None or stem[1].replace("_", "") != word.replace("_", ""):
        return None
    return int(stem[2] or 0)


def pair_automatic_names(
    layers: Sequence[NetLayer], match: NameMatch, table: LayoutTable, file: WeightFile
) -> list[str]:
    """Pair the layers with automatic names: the k-th such name of a class in the net with the k-th in the file, within
    each model and block, by the numbers in the names.

    Keras' ``dense_1`` is the second layer of its class, ours the first, so that equal names would be other layers. A
    net that has a ``dense``, too, has Keras' names. Where the file has more or fewer such names of a class, they tell
    nothing: their pairs are undone. Returns notes for the report: what was paired with another name, what was undone.
    """
    classes = _automatic_names(layers)
    if not classes:
        return []
    theirs = _automatic_names_of_file(find_file_layers(file, table, ()), {word for _, word in classes})
    paired_keys, dropped_keys = [], []
    for class_, group in classes.items():
        candidates = theirs.get(class_, [])
        if len(candidates) != len(group):
            for number in group:
                if match.pairings[number].arrays:
                    match.pairings[number] = Pairing(missing=layers[number].weight_names())
                    dropped_keys.append(layers[number].key)
            continue
        for number, candidate in zip(group, candidates, strict=True):
            match.pairings[number] = pair_layer(layers[number], table, file, candidate.find)
            if candidate.name.rpartition("/")[2] != layers[number].key.rpartition("/")[2]:
                paired_keys.append(f"{candidate.name!r} of the file is {layers[number].key!r}")
    notes = []
    if paired_keys:
        more = f", and {len(paired_keys) - 1} more" if len(paired_keys) > 1 else ""
        notes.append(f"the k-th automatic name of a class is the k-th of this class here: {paired_keys[0]}{more}")
    if dropped_keys:
        notes.append(
            f"{dropped_keys[0]!r} and {len(dropped_keys) - 1} more names only count the layers of a class, which "
            "are others in the file: such names say nothing"
        )
    return notes


def _automatic_names(layers: Sequence[NetLayer]) -> dict[_Class, list[int]]:
    """The places of the layers with automatic names, in the order of the numbers in these."""
    outer = _common_scope([layer.key for layer in layers])
    numbers: dict[_Class, list[tuple[int, int]]] = defaultdict(list)
    for place, layer in enumerate(layers):
        *scope, name = layer.key.split("/")
        word = snake_case(layer.kind)
        if (number := automatic_number(name, word)) is not None:
            numbers[tuple(scope[outer:]), word].append((number, place))
    return {
        class_: [place for _, place in sorted(places)]
        for class_, places in numbers.items()
        if all(number > 0 for number, _ in places)
    }


def _automatic_names_of_file(theirs: Sequence[FileLayer], words: set[str]) -> dict[_Class, list[FileLayer]]:
    theirs = [layer for layer in theirs if layer.arrays]
    outer = _common_scope([layer.name for layer in theirs])
    numbers: dict[_Class, list[tuple[int, FileLayer]]] = defaultdict(list)
    for layer in theirs:
        *scope, name = layer.name.split("/")
        for word in words:
            if (number := automatic_number(name, word)) is not None:
                numbers[tuple(scope[outer:]), word].append((number, layer))
    return {
        class_: [layer for _, layer in sorted(by_number, key=lambda item: item[0])]
        for class_, by_number in numbers.items()
    }


def _common_scope(names: Sequence[str]) -> int:
    """In how many models or blocks all layers are."""
    scopes = [name.split("/")[:-1] for name in names]
    count = 0
    for parts in zip(*scopes, strict=False):
        if len(set(parts)) > 1:
            break
        count += 1
    return count
