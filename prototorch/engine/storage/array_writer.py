"""Named arrays in a file that is a data source: NumPy's ``.npy`` and ``.npz``, and HDF5."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.hdf5_encoder import encode_hdf5
from prototorch.errors import UsageError

__all__ = ["ARRAY_SUFFIXES", "write_arrays"]

ARRAY_SUFFIXES = (".h5", ".hdf5", ".npz", ".npy")


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name into one file, whole or not at all; the suffix says the format.

    Raises UsageError for another suffix, for several arrays in a .npy file, and for names that cannot be in one file;
    SnapshotError where the file cannot be written.
    """
    suffix = Path(path).suffix
    if suffix not in ARRAY_SUFFIXES:
        raise UsageError(f"{os.fspath(path)}: expected a name that ends in {', '.join(ARRAY_SUFFIXES)}")
    if suffix in (".h5", ".hdf5"):
        write_bytes(path, encode_hdf5(arrays, {}, None, 0))
        return
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    elif len(arrays) == 1:
        np.save(buffer, next(iter(arrays.values())), allow_pickle=False)
    else:
        raise UsageError(f"{os.fspath(path)}: a .npy file holds one array, not {', '.join(arrays)}")
    write_bytes(path, buffer.getvalue())
