"""A file mapped into memory: its arrays take no memory of their own, and pages are read when they are touched.

The file must not change while it is mapped; files that are replaced by renaming (as this package does) keep their
content for those who have them open.
"""

from __future__ import annotations

import mmap
import os
from math import prod

import numpy as np

from prototorch.data.safe_io import open_file, printable_path
from prototorch.errors import DataError, ModelFileError

__all__ = ["MappedFile"]


class MappedFile:
    """The bytes of a regular file, read-only: ``data``, and the file's ``size`` and printable ``path``.

    descriptor: of the file if it is open already; it may be closed afterwards. Raises ModelFileError for a file that is
    missing, unreadable, or not a regular file.
    """

    def __init__(self, path: str | os.PathLike[str], descriptor: int | None = None):
        self.path = printable_path(path)
        try:
            if descriptor is not None:
                self.size, self._map = _map(descriptor, os.fstat(descriptor).st_size)
            else:
                with open_file(path) as (handle, size):
                    self.size, self._map = _map(handle, size)
        except DataError as error:
            raise ModelFileError(str(error)) from None
        except (ValueError, OverflowError) as error:
            raise ModelFileError(f"{self.path}: cannot be mapped into memory: {error}") from None
        self.data = memoryview(self._map)

    def read(self, offset: int, count: int, what: str) -> bytes:
        """A copy of ``count`` bytes. Raises ModelFileError where they are not within the file."""
        self.check_range(offset, count, what)
        return bytes(self.data[offset : offset + count])

    def array(self, dtype: np.dtype, shape: tuple[int, ...], offset: int, what: str) -> np.ndarray:
        """A read-only view of the file's bytes, which need not be aligned. Raises ModelFileError as `read`."""
        count = prod(shape)
        self.check_range(offset, count * dtype.itemsize, what)
        if count == 0:
            return np.zeros(shape, dtype)
        return np.frombuffer(self._map, dtype, count, offset).reshape(shape)

    def check_range(self, offset: int, count: int, what: str) -> None:
        """Raise ModelFileError unless ``count`` bytes from ``offset`` on are within the file."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise ModelFileError(
                f"{self.path}: {what}: {count:,} bytes at {offset:,} are not within the file ({self.size:,} bytes)"
            )


def _map(handle: int, size: int) -> tuple[int, mmap.mmap | bytes]:
    """The size and the mapped bytes of an open file; an empty one cannot be mapped."""
    return size, mmap.mmap(handle, size, access=mmap.ACCESS_READ) if size else b""
