"""What a system whose files are HDF5 declares: an `HDF5Variant` at the top of a module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prototorch.base.index import Extension
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["HDF5Variant"]


@dataclass(frozen=True)
class HDF5Variant(Extension):
    """Files of one system among HDF5 files.

    recognize: whether a file with these groups, arrays and attributes is one; no two variants recognize one file. open:
    its weights, or ModelFileError with one sentence.
    """

    recognize: Callable[[HDF5Layout], bool]
    open: Callable[[HDF5Layout], WeightFile]
