"""Encoder of a tree of arrays as the HDF5 library's own defaults lay it out, byte for byte, in memory.

For files that programs with old libraries read (Caffe's snapshots): groups of the oldest format, contiguous datasets,
in the order in which they are given. Unlike `hdf5_encoder`, it holds all bytes in memory once more.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from h5py import h5d, h5f, h5g, h5p, h5s, h5t

__all__ = ["encode_image"]

_INCREMENT = 1 << 20  # bytes by which the file in memory grows
_TYPES = {"float32": h5t.IEEE_F32LE, "float64": h5t.IEEE_F64LE, "int32": h5t.STD_I32LE}

Value = np.ndarray | bytes | None


def encode_image(entries: Iterable[tuple[tuple[str, ...], Value]]) -> bytes:
    """The bytes of a file.

    entries: path and value of each object, in the order in which they are made; None is a group, ``bytes`` a text that
    ends with a NUL. The groups of a path come before it. Arrays are float32, float64 or int32. Raises ValueError for a
    name that HDF5 cannot hold as one name, or that is there twice.
    """
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(_INCREMENT, False)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_V18)
    file = h5f.create(b"image.h5", h5f.ACC_TRUNC, fapl=access)  # the name is not used: nothing is written to a disk
    seen: set[tuple[str, ...]] = set()
    for path, value in entries:
        if path in seen or any(not part or part == "." or "/" in part or "\0" in part for part in path):
            raise ValueError(f"{path[-1]!r:.80} is no name in HDF5, or is there twice")
        seen.add(path)
        _create(file, path, value)
    h5f.flush(file)
    content = file.get_file_image()
    file.close()
    return bytes(content)


def _create(file: h5f.FileID, path: tuple[str, ...], value: Value) -> None:
    parent = h5g.open(file, "/".join(path[:-1]).encode()) if len(path) > 1 else file
    name = path[-1].encode()
    if value is None:
        h5g.create(parent, name)
    elif isinstance(value, bytes):
        kind = h5t.C_S1.copy()
        kind.set_size(len(value) + 1)
        kind.set_strpad(h5t.STR_NULLTERM)
        dataset = h5d.create(parent, name, kind, h5s.create(h5s.SCALAR))
        dataset.write(h5s.ALL, h5s.ALL, np.array(value, f"S{len(value) + 1}"), kind)
    else:
        array = np.ascontiguousarray(value).reshape(value.shape)
        space = h5s.create_simple(array.shape)
        dataset = h5d.create(parent, name, _TYPES[array.dtype.name], space)
        if array.size:
            dataset.write(h5s.ALL, h5s.ALL, array)
