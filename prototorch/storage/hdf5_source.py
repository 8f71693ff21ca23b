"""HDF5 files as sources of data: importing this module lets `prototorch.data.open_source` read them.

The data room lies below this one and does not know of it; it keeps a table of readers, and here ours is put in.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototorch.data.safe_io import check_memory, physical_memory
from prototorch.data.sources import register_array_format
from prototorch.errors import DataError, ModelFileError
from prototorch.storage.foreign_hdf5 import map_datasets, read_dataset_specs, read_datasets

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(head: bytes) -> bool:
    """Whether the bytes begin an HDF5 file."""
    return head.startswith(SIGNATURE)


def read_hdf5(path: Path) -> dict[str, np.ndarray]:
    """The datasets of an HDF5 file by path, read without trusting it.

    What is larger than a quarter of the memory is mapped instead of read, if its datasets are contiguous.

    Raises:
        DataError: damaged or hostile, or anything in it is not a plain array.
        ResourceError: it does not fit in memory and cannot be mapped.
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
    return dict(sorted(arrays.items()))  # an HDF5 file need not keep an order


register_array_format("HDF5", is_hdf5, read_hdf5)
