"""Reader of the attributes of a foreign HDF5 file: numbers and strings; other types are ignored."""

from __future__ import annotations

from math import prod

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5s, h5t

from prototorch.engine.storage.hdf5_validator import UnsafeFileError, numpy_dtype_of

__all__ = ["read_attributes"]

MAX_ATTRIBUTES = 1_000
MAX_ELEMENTS = 65_536
MAX_TEXT_BYTES = 64 << 20  # bytes of all attributes of a file


def read_attributes(objects: list[tuple[str, h5g.GroupID | h5d.DatasetID]]) -> dict[str, dict[str, object]]:
    """Object path -> its attributes: int, float, bool, str, or a list of these. Raises UnsafeFileError."""
    attributes: dict[str, dict[str, object]] = {}
    remaining = MAX_TEXT_BYTES
    for path, handle in objects:
        count = h5a.get_num_attrs(handle)
        if count > MAX_ATTRIBUTES:
            raise UnsafeFileError(f"{path or '/'}: {count:,} attributes; the limit is {MAX_ATTRIBUTES:,}")
        values = {}
        for index in range(count):
            attribute = h5a.open(handle, index=index)
            value = _read_value(attribute, path or "/")
            if value is None:
                continue
            name = attribute.name.decode("utf-8", "replace")
            remaining -= sum(len(item) if isinstance(item, str) else 8 for item in np.atleast_1d(value))
            if remaining < 0:
                raise UnsafeFileError(f"{path or '/'}: attributes of more than {MAX_TEXT_BYTES:,} bytes")
            values[name] = value.tolist()
        if values:
            attributes[path] = values
    return attributes


def _read_value(attribute: h5a.AttrID, path: str) -> np.ndarray | None:
    space, kind = attribute.get_space(), attribute.get_type()
    if space.get_simple_extent_type() == h5s.NULL:
        return None
    shape = tuple(int(length) for length in space.get_simple_extent_dims())
    count = prod(shape)
    if isinstance(kind, h5t.TypeStringID):
        if count > MAX_ELEMENTS or (not kind.is_variable_str() and count * kind.get_size() > MAX_TEXT_BYTES):
            return None
        dtype = h5py.string_dtype() if kind.is_variable_str() else np.dtype(f"S{max(1, kind.get_size())}")
        raw = np.empty(shape, dtype=dtype)
        attribute.read(raw, mtype=h5t.py_create(dtype))
        texts = [item if isinstance(item, str) else bytes(item).decode("utf-8", "replace") for item in raw.reshape(-1)]
        texts = [text.rstrip("\0") for text in texts]
        return np.array(texts, dtype=object).reshape(shape)
    if count > MAX_ELEMENTS or kind.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM):
        return None
    try:
        dtype = np.dtype(numpy_dtype_of(kind, path))
    except UnsafeFileError:
        return None
    numbers = np.empty(shape, dtype)
    attribute.read(numbers, mtype=kind)
    return numbers
