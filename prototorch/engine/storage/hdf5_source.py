"""HDF5 files as data sources of `prototorch.data.open_source`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototorch.data.safe_io import check_memory, physical_memory
from prototorch.data.sources import ArrayFormat
from prototorch.engine.storage.foreign_hdf5 import map_datasets, read_dataset_specs, read_datasets
from prototorch.errors import DataError, ModelFileError

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(head: bytes) -> bool:
    """Whether the bytes start with the signature of HDF5."""
    return head.startswith(SIGNATURE)


def read_hdf5(path: Path) -> dict[str, np.ndarray]:
    """The datasets of an untrusted HDF5 file, by path.

    A file whose arrays exceed a quarter of the memory is memory-mapped instead, if its datasets are contiguous.

    Raises:
        DataError: the file is damaged or hostile, or contains anything but plain arrays.
        ResourceError: the arrays do not fit in memory and cannot be mapped.
    """
    try:
        size = sum(spec.nbytes for spec in read_dataset_specs(path).values())
        if size <= physical_memory() // 4:
            return _sort_by_path(read_datasets(path, size))
        try:
            return _sort_by_path(map_datasets(path))
        except ModelFileError:
            check_memory(size, str(path))
            return _sort_by_path(read_datasets(path, size))
    except ModelFileError as error:
        raise DataError(str(error)) from None


def _sort_by_path(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(sorted(arrays.items()))  # the order in an HDF5 file is not defined


FORMAT = ArrayFormat(kind="HDF5", signature=b"\x89HDF\r\n\x1a\n", read=read_hdf5)
