"""Attributes of a foreign HDF5 file, read by the strict reader: numbers and texts; all other kinds are passed over."""

from __future__ import annotations

from math import prod
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5s, h5t

from prototorch.storage.strict import RefusedError, plain_type

MOST_ATTRIBUTES = 1_000
LARGEST_COUNT = 65_536
LARGEST_TEXT = 64 << 20  # bytes, all attributes of a file together


def attributes_of(objects: list[tuple[str, h5g.GroupID | h5d.DatasetID]]) -> dict[str, dict[str, Any]]:
    """For each object's path its attributes: int, float, bool, str, or a list of these. Raises RefusedError."""
    found: dict[str, dict[str, Any]] = {}
    left = LARGEST_TEXT
    for path, handle in objects:
        count = h5a.get_num_attrs(handle)
        if count > MOST_ATTRIBUTES:
            raise RefusedError(f"{path or '/'}: {count:,} attributes; at most {MOST_ATTRIBUTES:,} are allowed")
        values = {}
        for index in range(count):
            attribute = h5a.open(handle, index=index)
            value = _value(attribute, path or "/")
            if value is None:
                continue
            name = attribute.name.decode("utf-8", "replace")
            left -= sum(len(item) if isinstance(item, str) else 8 for item in np.atleast_1d(value))
            if left < 0:
                raise RefusedError(f"{path or '/'}: attributes of more than {LARGEST_TEXT:,} bytes")
            values[name] = value.tolist()
        if values:
            found[path] = values
    return found


def _value(attribute: h5a.AttrID, path: str) -> np.ndarray | None:
    space, kind = attribute.get_space(), attribute.get_type()
    if space.get_simple_extent_type() == h5s.NULL:
        return None
    shape = tuple(int(length) for length in space.get_simple_extent_dims())
    count = prod(shape)
    if isinstance(kind, h5t.TypeStringID):
        if count > LARGEST_COUNT or (not kind.is_variable_str() and count * kind.get_size() > LARGEST_TEXT):
            return None
        dtype = h5py.string_dtype() if kind.is_variable_str() else np.dtype(f"S{max(1, kind.get_size())}")
        raw = np.empty(shape, dtype=dtype)
        attribute.read(raw, mtype=h5t.py_create(dtype))
        texts = [item if isinstance(item, str) else bytes(item).decode("utf-8", "replace") for item in raw.reshape(-1)]
        texts = [text.rstrip("\0") for text in texts]
        return np.array(texts, dtype=object).reshape(shape)
    if count > LARGEST_COUNT or kind.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM):
        return None
    try:
        dtype = np.dtype(plain_type(kind, path))
    except RefusedError:
        return None
    numbers = np.empty(shape, dtype)
    attribute.read(numbers, mtype=kind)
    return numbers
