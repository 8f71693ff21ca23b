"""The last stage: arrays of a file that have been checked, and are copied into a net's weights, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import ModelFileError
from prototorch.model.loading.layout.transforms import Transform, TransformError
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["Assignment", "CheckedWeights"]

_TILE = 256  # elements of a side: two tiles lie in the second level of a cache
_PARALLEL_BYTES = 8 << 20  # from here on an array is worth several threads
_HELD_BYTES = 64 << 20  # of arrays that are no memory maps: read once up to this size in all, above it twice


@dataclass(frozen=True)
class Assignment:
    """Weights of a net and the arrays of a file that they are read from."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    transform: Transform

    def read(self, file: WeightFile) -> tuple[np.ndarray, ...]:
        """The weights in our layouts, in the order of `ours`; views of the file's arrays where that is possible."""
        return self.transform.to_ours(tuple(file[name] for name in self.theirs))


@dataclass(frozen=True)
class CheckedWeights:
    """Arrays of a file that may be loaded. report: of what is loaded and of what is not."""

    file: WeightFile
    assignments: tuple[Assignment, ...]
    report: LoadReport

    @property
    def path(self) -> str:
        """The path of the file."""
        return str(self.file.path)

    def assign(self, weights: Mapping[str, Any]) -> LoadReport:
        """Copy the arrays into ``weights``, one by one; after an error nothing has been copied. Returns the report.

        Whatever can fail is done for all of them before the first is written: arrays that are no memory maps are read,
        and held where they are small. Raises ModelFileError.
        """
        arrays_in_memory: dict[int, tuple[np.ndarray, ...]] = {}
        free = _HELD_BYTES
        for number, assignment in enumerate(self.assignments):
            arrays = _read(assignment, self.file)
            size = sum(a.nbytes for a in arrays)
            for name, array in zip(assignment.ours, arrays, strict=True):
                _check_kind(array, name, weights[name], assignment, self.file)
            if all(_is_mapped(a) for a in arrays) or size > free:
                continue
            arrays_in_memory[number] = arrays
            free -= size
        for number, assignment in enumerate(self.assignments):
            arrays = arrays_in_memory.pop(number) if number in arrays_in_memory else _read(assignment, self.file)
            for name, array in zip(assignment.ours, arrays, strict=True):
                _copy(weights[name], array)
        return self.report


def _copy(target: Any, source: np.ndarray) -> None:
    """``target[...] = source``, of large arrays in bands by several threads (NumPy releases the lock)."""
    if not isinstance(target, np.ndarray) or source.nbytes < _PARALLEL_BYTES:
        _copy_band(target, source)
        return
    rows = max(1, _TILE**2 * 16 * len(source) // source.size)

    def copy_rows(begin: int, end: int) -> None:
        _copy_band(target[begin:end], source[begin:end])

    parallel_for(copy_rows, len(source), rows)


def _copy_band(target: Any, source: np.ndarray) -> None:
    """``target[...] = source``; a transposed array of 5600 x 5600 float32 in tiles takes 0.11 s, at once 0.44 s."""
    last = source.ndim - 1
    fastest = min(range(source.ndim), key=lambda axis: abs(source.strides[axis]), default=last)
    if source.size < _TILE**2 or fastest == last:
        target[...] = source
        return
    index = [slice(None)] * source.ndim
    for i in range(0, source.shape[fastest], _TILE):
        index[fastest] = slice(i, i + _TILE)
        for j in range(0, source.shape[last], _TILE):
            index[last] = slice(j, j + _TILE)
            target[tuple(index)] = source[tuple(index)]


def _check_kind(array: np.ndarray, name: str, weight: Any, assignment: Assignment, file: WeightFile) -> None:
    where = f"{file.path}: {', '.join(assignment.theirs)}"
    if array.shape != np.shape(weight):
        raise ModelFileError(f"{where} gave {list(array.shape)} for {name}, expected {list(np.shape(weight))}")
    if array.dtype.kind != "f" and array.dtype != weight.dtype:
        raise ModelFileError(
            f"{where} is {array.dtype.name}, and {name} is {weight.dtype.name}: quantized weights must be converted to "
            "floating point first"
        )


def _read(assignment: Assignment, file: WeightFile) -> tuple[np.ndarray, ...]:
    try:
        return assignment.read(file)
    except TransformError as reason:
        raise ModelFileError(f"{file.path}: {', '.join(assignment.theirs)}: {reason}") from None


def _is_mapped(array: np.ndarray) -> bool:
    """Whether the array is a view of a memory map, which costs no memory to read again."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return base is not None and prod(array.shape) > 0
