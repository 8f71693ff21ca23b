"""Matching by name: the file's names, renamed by rules, beside the net's, with what wraps them left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from prototorch.errors import WeightsError
from prototorch.model.loading.file_layers import FileNames, Parts, split_name
from prototorch.model.loading.layout.layout_table import LayoutTable
from prototorch.model.loading.layout.pairing import Pairing, pair_layer
from prototorch.model.loading.names.renaming import Renaming
from prototorch.model.loading.net_layers import NetLayer
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["NameMatch", "match_names"]

_MAX_PREFIX, _MAX_CANDIDATES = 3, 8


@dataclass
class NameMatch:
    """The pairings of all layers. prefix: what stands before all names of the file ("module"), and outer: what stands
    before all names of the net; both are left out."""

    pairings: list[Pairing]
    prefix: Parts = ()
    outer: Parts = ()

    @cached_property
    def rank(self) -> tuple[int, int]:
        """The larger the better: see `Pairing.rank`."""
        ranks = [p.rank for p in self.pairings]
        return sum(is_found for is_found, _ in ranks), sum(fitting for _, fitting in ranks)


def match_names(layers: Sequence[NetLayer], table: LayoutTable, file: WeightFile, renaming: Renaming) -> NameMatch:
    """The best match over the prefixes that may stand before the names.

    Raises WeightsError where two prefixes match as well ("model", "ema"): `strip` of the rules chooses one.
    """
    parts = {name: table.split_name(name) for name in file.arrays}
    best = _match(layers, table, file, parts, renaming, (), ())
    if all(p.is_complete for p in best.pairings):
        return best
    rivals: list[NameMatch] = []
    for prefix in _common_prefixes(parts.values(), _first_parts(layers, renaming)):
        try:
            match = _match(layers, table, file, parts, renaming, prefix, ())
        except WeightsError:  # names that are different but for this prefix: it wraps nothing
            continue
        if match.rank > best.rank:
            best, rivals = match, []
        elif match.rank == best.rank and best.prefix and match.rank > (0, 0):
            rivals.append(match)
    if rivals:
        names = ", ".join(repr(".".join(m.prefix) + ".") for m in (best, *rivals))
        raise WeightsError(
            f"{file.path}: the weights of the net are there more than once, under {names}; say which to take: "
            f'rules {{ strip: "{".".join(best.prefix)}." }}'
        )
    if best.rank == (0, 0) and (outer := _outer_parts(layers)):
        return _match(layers, table, file, parts, renaming, (), outer)
    return best


def _match(
    layers: Sequence[NetLayer],
    table: LayoutTable,
    file: WeightFile,
    parts_of_names: Mapping[str, Parts],
    renaming: Renaming,
    prefix: Parts,
    outer: Parts,
) -> NameMatch:
    names = FileNames(file, parts_of_names, renaming.under(prefix), renaming.weights)
    pairings = []
    for layer in layers:
        pairing = Pairing(missing=layer.weight_names())
        for name in layer.names:
            parts = split_name(name)[len(outer) :]
            other = pair_layer(layer, table, file, _finder(names, parts))
            if other.rank > pairing.rank:
                pairing = other
        pairings.append(pairing)
    used = {name for pairing in pairings for name in pairing.arrays}
    for first, second in names.clashes:
        if first in used:
            raise WeightsError(f"{file.path}: {first!r} and {second!r} are one name here; rules may map each of them")
    return NameMatch(pairings, prefix, outer)


def _finder(names: FileNames, parts: Parts) -> Callable[..., dict[str, str]]:
    return lambda layouts: names.find(parts, layouts)


def _common_prefixes(names: Iterable[Parts], first_parts: Container[str] | None) -> list[Parts]:
    """The beginnings that most names of the file have, where one of ``first_parts`` comes behind."""
    counts: Counter[Parts] = Counter()
    for parts in names:
        ends = range(1, min(_MAX_PREFIX, len(parts) - 1) + 1)
        counts.update(parts[:end] for end in ends if first_parts is None or parts[end] in first_parts)
    return [parts for parts, _ in counts.most_common(_MAX_CANDIDATES)]


def _first_parts(layers: Sequence[NetLayer], renaming: Renaming) -> set[str] | None:
    """The first parts of all names that are looked for; None where rules with wildcards leave that open."""
    if renaming.has_wildcards:
        return None
    names = [split_name(name) for layer in layers for name in layer.names] + renaming.names()
    return {parts[0] for parts in names if parts}


def _outer_parts(layers: Sequence[NetLayer]) -> Parts:
    """The beginning that the names of all layers of the net have, but for their last parts."""
    parts = [split_name(layer.key)[:-1] for layer in layers]
    common: list[str] = []
    for column in zip(*parts, strict=False):
        if len(set(column)) > 1:
            break
        common.append(column[0])
    return tuple(common)
