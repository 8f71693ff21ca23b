"""Whose names and layouts the arrays of a file have, where the file does not tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.model.loading.layout.layout_table import LayoutTable, layout_table
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["candidate_tables", "choose_table"]

SYSTEMS = ("torch", "keras", "prototorch")  # of files that do not tell; those of Caffe do
#: what the metadata of safetensors files of Hugging Face's libraries call the frameworks
_METADATA_FORMATS = {"pt": "torch", "torch": "torch", "prototorch": "prototorch", "keras": "keras"}
T = TypeVar("T")


def candidate_tables(file: WeightFile, system: str | None) -> list[LayoutTable]:
    """The tables of the systems that the file may be of: one, where the caller or the file tells it.

    Raises UsageError for a system without a table.
    """
    if system is not None:
        table = layout_table(system)
        if table is None:
            raise UsageError(f"system={system!r}: expected one of {', '.join(SYSTEMS)}.{did_you_mean(system, SYSTEMS)}")
        return [table]
    declared = file.system or _METADATA_FORMATS.get(file.metadata.get("format", ""), "")
    table = layout_table(declared) if declared else None
    if table is not None:
        return [table]
    return [layouts for name in SYSTEMS if (layouts := layout_table(name)) is not None]


def choose_table(
    file: WeightFile,
    tables: Sequence[LayoutTable],
    match: Callable[[LayoutTable], T],
    rank: Callable[[T], tuple[int, int]],
    content: Callable[[T], object],
) -> tuple[LayoutTable, T]:
    """The table whose match is the best. rank: of a match. content: what is loaded; where it is equal the systems do
    not differ for this file.

    Raises WeightsError where two systems match as well and what they load differs: shapes and names do not tell which
    of them the file is of.
    """
    matches = [(table, match(table)) for table in tables]
    best = max(matches, key=lambda pair: rank(pair[1]))
    rivals = [pair for pair in matches if rank(pair[1]) == rank(best[1]) != (0, 0)]
    if any(content(one) != content(best[1]) for _, one in rivals):
        names = " or ".join(repr(table.system) for table, _ in rivals)
        raise WeightsError(
            f"{file.path}: its names and shapes fit the layouts of several systems, in which the weights differ; give "
            f"system={names}"
        )
    return best
