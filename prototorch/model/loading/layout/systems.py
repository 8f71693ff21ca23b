"""Whose names and layouts the arrays of a file have, where the file does not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.model.loading.assign.checked import Assignment
from prototorch.model.loading.layout.layout_table import LayoutTable, layout_table
from prototorch.model.loading.layout.transforms import TransformError
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["candidate_tables", "choose_table"]

SYSTEMS = ("torch", "keras", "prototorch")  # of files that do not tell; those of Caffe do
#: what the metadata of safetensors files of Hugging Face's libraries call the frameworks
_METADATA_FORMATS = {"pt": "torch", "torch": "torch", "prototorch": "prototorch", "keras": "keras"}
T = TypeVar("T")


def candidate_tables(file: WeightFile, system: str | None) -> list[LayoutTable]:
    """The tables of the systems that the file may be of: one, where the caller or the file tells it.

    Where the file does not tell, names that several systems have (`LayoutTable.has_shared_names`) say which weight an
    array is and not who wrote it, so that each system may have written it; so where the caller tells another system
    than the names. Raises UsageError for a system without a table.
    """
    if system is not None:
        table = layout_table(system)
        if table is None:
            raise UsageError(f"system={system!r}: expected one of {', '.join(SYSTEMS)}.{did_you_mean(system, SYSTEMS)}")
        return [table.with_names_of(_shared_vocabularies())]
    declared = file.system or _METADATA_FORMATS.get(file.metadata.get("format", ""), "")
    table = layout_table(declared) if declared else None
    if table is not None:
        return [table]
    return [table.with_names_of(_shared_vocabularies()) for table in _tables()]


def _tables() -> list[LayoutTable]:
    return [table for name in SYSTEMS if (table := layout_table(name)) is not None]


def _shared_vocabularies() -> list[LayoutTable]:
    return [table for table in _tables() if table.has_shared_names]


def choose_table(
    file: WeightFile,
    matches: Sequence[tuple[LayoutTable, T]],
    rank: Callable[[T], tuple[int, int]],
    content: Callable[[T], Mapping[str, Assignment]],
) -> tuple[LayoutTable, T]:
    """The table whose match is the best, and this match. rank: of a match. content: what is loaded, by the names of the
    weights; where it is equal the systems do not differ for this file.

    Raises WeightsError where the shapes fit two systems as well, or some the one and some the other, and what they load
    differs: shapes and names do not tell which of them the file is of.
    """
    best = max(matches, key=lambda pair: rank(pair[1]))
    best_content = content(best[1])
    rivals = []
    for table, one in matches:
        is_equal = rank(one) == rank(best[1]) != (0, 0)
        other = content(one)
        if table is not best[0] and (is_equal or other.keys() - best_content.keys()):
            rivals.append((table, other, _first_difference(best_content, other, file, is_equal)))
    differences = [difference for _, _, difference in rivals if difference is not None]
    if differences:
        example = differences[0]
        fitting = {best[0].system: best_content, **{table.system: other for table, other, _ in rivals}}
        names = " or ".join(repr(table.system) for table, _ in matches if table.system in fitting)
        orders = {system: other[example] for system, other in fitting.items() if example in other}
        layouts = "; ".join(f"{system}: {str(one.transform) or 'as it is'}" for system, one in orders.items())
        arrays = next(iter(orders.values())).theirs
        raise WeightsError(
            f"{file.path}: it does not tell which system wrote it, and its names and shapes fit the layouts of several "
            f"systems, in which the weights differ ({', '.join(arrays)} {list(file.arrays[arrays[0]].shape)} for "
            f"{example}: {layouts}); give system={names} (--system; in a text weights {{ system: ... }})"
        )
    return best


def _first_difference(
    content: Mapping[str, Assignment], other: Mapping[str, Assignment], file: WeightFile, are_all_compared: bool
) -> str | None:
    """The first weight that is loaded otherwise; None where there is none. are_all_compared: whether a weight that only
    one of them has counts."""
    for name, assignment in content.items():
        rival = other.get(name)
        if rival == assignment or (rival is None and not are_all_compared):
            continue
        if rival is None or not _loads_same(assignment, rival, file):
            return name
    return next(iter(other.keys() - content.keys()), None) if are_all_compared else None


def _loads_same(assignment: Assignment, rival: Assignment, file: WeightFile) -> bool:
    """Whether two assignments load the same elements, as those of a kernel of one element."""
    try:
        pairs = zip(assignment.read(file), rival.read(file), strict=True)
        return assignment.ours == rival.ours and all(np.array_equal(a, b) for a, b in pairs)
    except (TransformError, ValueError):
        return False
