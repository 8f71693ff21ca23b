"""The order of the axes of Keras' images, which a file of weights alone does not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.model.loading.layout.layout_table import LayoutTable
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["data_format_note", "with_data_format"]

_FORMATS = ("channels_last", "channels_first")


def with_data_format(file: WeightFile, data_format: str, tables: Sequence[LayoutTable]) -> WeightFile:
    """The file with the order of axes that its user tells. tables: of the systems that it may be of.

    Flatten is taken to leave the elements in the order of the axes, as Keras' own does by default.
    Raises UsageError for an unknown order, one that contradicts the file, and a file that is not of Keras.
    """
    if data_format not in _FORMATS:
        raise UsageError(f"data_format: expected {' or '.join(_FORMATS)}, got {data_format!r:.60}")
    if all(table.system != "keras" for table in tables):
        systems = " or ".join(table.system for table in tables)
        raise UsageError(f"{file.path}: data_format is for weights of Keras; this file is of {systems}")
    file_format = file.metadata.get("data_format")
    if file_format is not None and file_format != data_format:
        raise UsageError(f"{file.path}: data_format={data_format!r} is given, but the file itself says {file_format!r}")
    if file_format is not None:
        return file
    return replace(file, metadata={**file.metadata, "data_format": data_format, "flatten": data_format})


def data_format_note(file: WeightFile, table: LayoutTable, net: Net, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """A sentence that says which order was assumed; "" where the file tells it, or where it makes no difference."""
    if "data_format" in file.metadata:
        return ""
    last, first = (_transforms(table, net, shapes, data_format) for data_format in _FORMATS)
    if last == first:
        return ""
    return (
        "the file does not tell the order of its images' axes: taken to be channels_last, Keras' default; for a net "
        'of Keras that has them first give data_format="channels_first" (--data-format channels_first)'
    )


def _transforms(
    table: LayoutTable, net: Net, shapes: Mapping[str, tuple[int, ...]], data_format: str
) -> dict[str, list[str]]:
    layouts = table.net_layouts(net, shapes, {"data_format": data_format, "flatten": data_format})
    return {name: [str(layout.transform) for layout in of_node] for name, of_node in layouts.items()}
