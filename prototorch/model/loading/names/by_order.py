"""Matching by order and shape: a proposal where names say nothing. It is shown, and taken only when asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from prototorch.model.loading.file_layers import FileLayer, Parts, find_file_layers, split_name
from prototorch.model.loading.layout.layout_table import LayoutTable
from prototorch.model.loading.layout.order_match import OrderMatch
from prototorch.model.loading.layout.pairing import Pairing, pair_layer
from prototorch.model.loading.net_layers import NetLayer
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["match_class_order", "match_order"]

_Fits = Mapping[int, set[int]]  # of a kind of layer of ours: the kinds of layers of the file that fit it
_MAX_CELLS = 1_000_000  # layers of the net times layers of the file: the time of an alignment


def match_order(layers: Sequence[NetLayer], table: LayoutTable, file: WeightFile) -> OrderMatch:
    """The longest alignment of the layers of both in which each pair fits in kind and shapes.

    Where the layers of each kind and shape are as many in both, each gets one of its own, so that branches may come in
    another order.
    """
    theirs = find_file_layers(file, table, _submodules(layers, table))
    theirs = [one for one in theirs if any(key[-1] not in table.ignored for key in one.arrays)]
    ours = _numbers([(one.kind, tuple(one.shapes.items()), tuple(map(tuple, one.variants(table)))) for one in layers])
    others = _numbers([_signature(one, file) for one in theirs])
    first_ours, first_others = _first_places(ours), _first_places(others)
    fits = {
        g: {h for h, j in first_others.items() if _is_pair(layers[i], theirs[j], table, file)}
        for g, i in first_ours.items()
    }
    pairs = _one_by_one(layers, ours, others, fits)
    if pairs is None:
        pairs = _longest_alignment(ours, others, fits)
    return _order_match(layers, theirs, pairs, table, file)


def match_class_order(layers: Sequence[NetLayer], table: LayoutTable, file: WeightFile) -> OrderMatch | None:
    """The k-th layer of a class in the file is the k-th of that class in the net (Keras' rule for files without
    names); None unless there are as many of each class in both."""
    theirs = [layer for layer in find_file_layers(file, table, ()) if layer.arrays]
    if Counter(layer.kind for layer in layers) != Counter(layer.kind for layer in theirs):
        return None
    places: dict[str, list[int]] = defaultdict(list)
    for j, layer in enumerate(theirs):
        places[layer.kind].append(j)
    pairs = {i: places[layer.kind].pop(0) for i, layer in enumerate(layers)}
    return _order_match(layers, theirs, pairs, table, file)


def _order_match(
    layers: Sequence[NetLayer], theirs: Sequence[FileLayer], pairs: dict[int, int], table: LayoutTable, file: WeightFile
) -> OrderMatch:
    pairings = []
    for i, layer in enumerate(layers):
        pairing = pair_layer(layer, table, file, theirs[pairs[i]].find) if i in pairs else None
        pairings.append(pairing or Pairing(missing=layer.weight_names()))
    return OrderMatch(layers, theirs, pairs, pairings)


def _submodules(layers: Sequence[NetLayer], table: LayoutTable) -> list[Parts]:
    """The names of modules that are part of a layer of the net in that system."""
    tails: dict[Parts, None] = {}
    for layer in layers:
        for layouts in layer.variants(table):
            names = (split_name(name)[:-1] for layout in layouts for name in layout.theirs)
            tails.update(dict.fromkeys(tail for tail in names if tail))
    return sorted(tails, key=len, reverse=True)


def _signature(layer: FileLayer, file: WeightFile) -> object:
    return layer.kind, layer.is_ordered, tuple((key, file.arrays[name].shape) for key, name in layer.arrays.items())


def _numbers(signatures: Sequence[object]) -> list[int]:
    """Equal numbers for equal signatures."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(signature, len(numbers)) for signature in signatures]


def _is_pair(layer: NetLayer, other: FileLayer, table: LayoutTable, file: WeightFile) -> bool:
    """Whether all weights of one are all arrays of the other."""
    if other.kind and other.kind != layer.kind:
        return False
    pairing = pair_layer(layer, table, file, other.find)
    rest = [key for key, name in other.arrays.items() if name not in pairing.arrays and key[-1] not in table.ignored]
    return pairing.is_complete and not rest and not pairing.rejected


def _first_places(numbers: Sequence[int]) -> dict[int, int]:
    """Where each number comes first."""
    return {number: place for place, number in reversed(list(enumerate(numbers)))}


def _one_by_one(
    layers: Sequence[NetLayer], ours: Sequence[int], others: Sequence[int], fits: _Fits
) -> dict[int, int] | None:
    """Every layer with the one at its place in the file, where all of these fit; else with the first free one that
    fits, layers with the fewest of these first, and from each pair on what is before and behind it in both. None unless
    every layer of both gets a partner."""
    if len(ours) != len(others):
        return None
    if all(h in fits[g] for g, h in zip(ours, others, strict=True)):
        return {i: i for i in range(len(ours))}
    neighbours = _neighbours(layers)
    pairs: dict[int, int] = {}
    free: dict[int, dict[int, None]] = defaultdict(dict)
    for j, h in enumerate(others):
        free[h][j] = None

    def pair(i: int, j: int) -> None:
        waiting = [(i, j)]
        while waiting:
            i, j = waiting.pop()
            if i in pairs or not 0 <= j < len(others) or others[j] not in fits[ours[i]] or j not in free[others[j]]:
                continue
            pairs[i] = j
            del free[others[j]][j]
            waiting += [(neighbour, j + distance) for neighbour, distance in neighbours[i]]

    choices = {g: sum(len(free[h]) for h in fits[g]) for g in set(ours)}
    for i in sorted(range(len(ours)), key=lambda i: choices[ours[i]]):
        if i not in pairs:
            places = [next(iter(free[h])) for h in fits[ours[i]] if free[h]]
            if not places:
                return None
            pair(i, min(places))
    return {i: pairs[i] for i in range(len(ours))}


def _neighbours(layers: Sequence[NetLayer]) -> dict[int, list[tuple[int, int]]]:
    """For each layer those that it reads, at distance -1, and those that read it, at distance 1."""
    numbers = {layer.key: i for i, layer in enumerate(layers)}
    result: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i, layer in enumerate(layers):
        for key in layer.reads:
            result[numbers[key]].append((i, 1))
            result[i].append((numbers[key], -1))
    return result


def _longest_alignment(ours: Sequence[int], others: Sequence[int], fits: _Fits) -> dict[int, int]:
    """The longest common subsequence; none where there are too many layers."""
    n, m = len(ours), len(others)
    if n * m > _MAX_CELLS:
        return {}
    lengths = [[0] * (m + 1) for _ in range(n + 1)]
    for i in reversed(range(n)):
        row, below, fitting = lengths[i], lengths[i + 1], fits[ours[i]]
        for j in reversed(range(m)):
            row[j] = below[j + 1] + 1 if others[j] in fitting else max(below[j], row[j + 1])
    pairs: dict[int, int] = {}
    i = j = 0
    while i < n and j < m:
        if others[j] in fits[ours[i]] and lengths[i][j] == lengths[i + 1][j + 1] + 1:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
