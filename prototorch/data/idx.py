"""IDX files, the format of MNIST: two zero bytes, a type code, the number of dimensions, the sizes, the elements, all
big-endian.

The format is described on the MNIST page (http://yann.lecun.com/exdb/mnist/). A file must have
exactly the size that its header declares.
"""

from __future__ import annotations

import os
from math import prod

import numpy as np

from prototorch.data.safe_io import inflate, inflate_head, is_gzip, printable_path, read_file
from prototorch.errors import DataError

__all__ = ["decode_idx", "encode_idx", "is_idx", "read_idx"]

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CODES = {np.dtype(name).newbyteorder("="): code for code, name in _TYPES.items()}
MAX_DIMENSIONS = 8


def is_idx(head: bytes) -> bool:
    """Whether the first four bytes are a valid start of an IDX file."""
    return len(head) >= 4 and head[:2] == b"\0\0" and head[2] in _TYPES and 1 <= head[3] <= MAX_DIMENSIONS


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an IDX file, plain or gzip-compressed, in the machine's byte order; read-only.

    Raises:
        DataError: not an IDX file, or its size differs from what its header declares.
        ResourceError: the array does not fit in memory.
    """
    return decode_idx(read_file(path), printable_path(path))


def decode_idx(data: bytes | bytearray, name: str) -> np.ndarray:
    """The array in the bytes of an IDX file; ``name`` is for messages. Raises as `read_idx` does."""
    is_compressed = is_gzip(data)
    head = inflate_head(data, 4 + 4 * MAX_DIMENSIONS, name) if is_compressed else bytes(data[: 4 + 4 * MAX_DIMENSIONS])
    if not is_idx(head):
        raise DataError(f"{name}: is not an IDX file (it starts with {head[:4].hex(' ') or 'nothing'})")
    dtype, count = np.dtype(_TYPES[head[2]]), head[3]
    start = 4 + 4 * count
    if len(head) < start:
        raise DataError(f"{name}: truncated inside its header")
    shape = tuple(int.from_bytes(head[4 + 4 * i : 8 + 4 * i], "big") for i in range(count))
    size = start + prod(shape) * dtype.itemsize
    if is_compressed:
        data = inflate(data, size, name)
    elif len(data) != size:
        what = "truncated" if len(data) < size else "too long"
        raise DataError(f"{name}: {what}: shape {list(shape)} needs {size:,} bytes, got {len(data):,}")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    if dtype.itemsize > 1:
        array = array.astype(dtype.newbyteorder("="))
    array.flags.writeable = False
    return array


def encode_idx(array: np.ndarray) -> bytes:
    """The bytes of an IDX file. Raises DataError for dtypes and numbers of dimensions that the format cannot store."""
    code = _CODES.get(array.dtype.newbyteorder("="))
    if code is None or not 1 <= array.ndim <= MAX_DIMENSIONS:
        raise DataError(f"IDX cannot store an array of {array.dtype}{list(array.shape)}")
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, code, array.ndim]) + sizes + np.ascontiguousarray(array, dtype=_TYPES[code]).tobytes()
