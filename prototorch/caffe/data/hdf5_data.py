"""HDF5Data: rows of the HDF5 files that a list names, one file after the other.

Source: ``src/caffe/layers/hdf5_data_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototorch.caffe.data.blob_source import Blobs, BlobSource
from prototorch.caffe.data.file_search import FileSearch
from prototorch.data.safe_io import printable_path, read_lines
from prototorch.data.shuffling import permutation
from prototorch.engine.storage.hdf5_source import read_hdf5
from prototorch.errors import DataError, did_you_mean

__all__ = ["HDF5ListSource"]

MAX_LIST_BYTES = 1 << 28  # bytes of the list
MAX_LINE_BYTES = 1 << 16  # bytes of one of its lines
MAX_CACHED_BYTES = 1 << 30  # of files that are kept in memory for the next pass


class HDF5ListSource(BlobSource):
    """A batch is the next rows; at the end of a file the next one is read, behind the last one the first again.

    Each file holds one dataset for each top, by the top's name, whose first axis is the rows. Integers and
    floating-point numbers of any size are read.

    Args:
        source: the list, a text with the names of HDF5 files between white space.
        tops: the names of the datasets.
        batch_size: rows of a batch, which may be more than a file has.
        shuffle: draw the order of the files, and of the rows within each, anew for each pass.
        seed: of the orders.
        search: where files are.
        dtype: "float32" or "float64", of the batches.

    Raises DataError (on opening and while reading): the list or a file is missing, damaged or empty, a dataset is
    missing or has another number of rows than the first or another shape than that of the first file.
    """

    prefetch = 2

    def __init__(
        self,
        source: str,
        tops: list[str],
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        search: FileSearch | None = None,
        dtype: str = "float32",
    ):
        super().__init__()
        search = search or FileSearch()
        if batch_size < 1:
            raise DataError(f"batch_size must be 1 or more, not {batch_size}")
        path = search.find(source, "list of HDF5 files")
        self.name = printable_path(path)
        text = bytes(read_lines(path, MAX_LINE_BYTES, MAX_LIST_BYTES)).decode("utf-8", "surrogateescape")
        words = [(word, number) for number, line in enumerate(text.split("\n"), 1) for word in line.split()]
        if not words:
            raise DataError(f"{self.name}: names no file; expected the name of an HDF5 file in each line")
        inner = search.with_folder_of(path)
        self.files = [inner.find(word, "HDF5 file", f"{self.name}, line {line}") for word, line in words]
        self.tops, self.batch_size, self.shuffle, self.seed, self.dtype = tops, batch_size, shuffle, seed, dtype
        self._pass = self._file_position = self._row = 0  # of the next row, and of its file in the pass
        self._number = 0  # of the next batch
        self._rows: dict[str, np.ndarray] = {}
        self._order = np.arange(0)
        self._loaded_file = -1
        self._cache: dict[int, dict[str, np.ndarray]] = {}
        self._load()
        self._row_shapes = {top: array.shape[1:] for top, array in self._rows.items()}
        self.shapes = {top: (batch_size, *shape) for top, shape in self._row_shapes.items()}
        self.check_batch_memory(np.dtype(dtype).itemsize)

    def make_batch(self, number: int) -> Blobs:
        if number < self._number:
            self._pass = self._file_position = self._row = self._number = 0
            self._load()
        while self._number < number:
            self._take(self.batch_size)
            self._number += 1
        self._number += 1
        return self._take(self.batch_size, copy=True)

    def _take(self, count: int, copy: bool = False) -> Blobs:
        """The next rows; without ``copy`` they are left out, and the files are read only where they are in the way."""
        batch = {top: np.empty((count, *shape), self.dtype) for top, shape in self._row_shapes.items()} if copy else {}
        count_read = 0
        while count_read < count:
            part = self._order[self._row : self._row + count - count_read]
            for top, out in batch.items():
                out[count_read : count_read + len(part)] = self._rows[top][part]
            count_read += len(part)
            self._row += len(part)
            if self._row == len(self._order):
                self._row, self._file_position = 0, self._file_position + 1
                if self._file_position == len(self.files):
                    self._file_position, self._pass = 0, self._pass + 1
                self._load()
        return batch

    def _load(self) -> None:
        """Read the file that is next, unless it is there, and draw the order of its rows."""
        count, file = len(self.files), self._file_position
        if self.shuffle:
            file = int(permutation(count, self.seed, self._pass)[self._file_position])
        if file != self._loaded_file:
            if file not in self._cache:
                self._remember(file, self._read(self.files[file]))
            self._rows, self._loaded_file = self._cache[file], file
        num_rows = len(next(iter(self._rows.values())))
        self._order = np.arange(num_rows)
        if self.shuffle:
            self._order = permutation(num_rows, self.seed + 1, self._pass * count + self._file_position)

    def _remember(self, file: int, rows: dict[str, np.ndarray]) -> None:
        """Keep the rows of a file for the next pass; those that were read first go where there are too many."""
        self._cache[file] = rows
        sizes = {f: sum(array.nbytes for array in arrays.values()) for f, arrays in self._cache.items()}
        total = sum(sizes.values())
        for other in list(self._cache):
            if total > MAX_CACHED_BYTES and other != file:
                total -= sizes[other]
                del self._cache[other]

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        name = printable_path(path)
        arrays = read_hdf5(path)
        rows: dict[str, np.ndarray] = {}
        for top in self.tops:
            array = arrays.get(top)
            if array is None:
                raise DataError(
                    f"{name}: has no dataset {top!r}, which is a top of the layer; it has "
                    f"{', '.join(sorted(arrays)) or 'none'}.{did_you_mean(top, list(arrays))}"
                )
            if array.dtype.kind not in "fiu":
                raise DataError(f"{name}: the dataset {top!r} is of type {array.dtype}, expected numbers")
            if array.ndim < 1 or not len(array):
                raise DataError(f"{name}: the dataset {top!r} of shape {list(array.shape)} has no rows")
            first = rows.setdefault(top, array)
            expected = first.shape[1:] if self._loaded_file < 0 else self._row_shapes[top]
            if first.shape[1:] != expected:
                raise DataError(
                    f"{name}: a row of {top!r} has the shape {list(first.shape[1:])}, but {list(expected)} in the "
                    "file that was read first"
                )
        counts = {top: len(array) for top, array in rows.items()}
        if len(set(counts.values())) > 1:
            row_counts = ", ".join(f"{top} has {count:,}" for top, count in counts.items())
            raise DataError(f"{name}: the datasets must have the same number of rows, but {row_counts}")
        return rows
