"""Arrays of an HDF5 file of Keras, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, takewhile

import numpy as np

from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.errors import ModelFileError
from prototorch.interop.element_types import decode_elements
from prototorch.model.loading.weight_file import StoredArray

__all__ = ["computed_array", "stored_array", "text_list"]


def stored_array(layout: HDF5Layout, path: str) -> StoredArray:
    """A dataset; two bytes of no type are bfloat16, which Keras stores so, and are read as float32."""
    dataset = layout.datasets[path]
    if dataset.dtype == "|V2":
        return StoredArray(dataset.shape, "bfloat16", partial(_read, layout, path, "bfloat16"))
    dtype = np.dtype(dataset.dtype).name
    return StoredArray(dataset.shape, dtype, partial(_read, layout, path, dtype))


def _read(layout: HDF5Layout, path: str, dtype: str) -> np.ndarray:
    array = layout.read(path)
    return array if array.dtype == dtype else decode_elements(array, dtype, f"{layout.path}: {path}")


def computed_array(
    parts: Sequence[StoredArray], shape: tuple[int, ...], function: Callable[..., np.ndarray]
) -> StoredArray:
    """The array of that shape that a function makes of others, when it is asked for."""
    return StoredArray(shape, parts[0].dtype, lambda: np.ascontiguousarray(function(*(part.read() for part in parts))))


def text_list(attributes: dict[str, object], name: str, where: str) -> list[str] | None:
    """An attribute that lists names, also one that is split (``layer_names0``, ``layer_names1``); None for none.

    Raises ModelFileError for other values.
    """
    if name in attributes:
        pieces = [attributes[name]]
    else:
        pieces = list(takewhile(lambda piece: piece is not None, (attributes.get(f"{name}{k}") for k in count())))
    if not pieces:
        return None
    items = [item for piece in pieces for item in (piece if isinstance(piece, list) else [piece])]
    names = [item for item in items if isinstance(item, str)]
    if len(names) != len(items):
        raise ModelFileError(f"{where}: the attribute {name} must list texts, got {items!s:.80}")
    return names
