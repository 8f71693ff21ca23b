"""Blobs: the named arrays of a net, and the parameters of its layers, each with its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any

import numpy as np

from prototorch.errors import UsageError

__all__ = ["Blob", "BlobShape"]

MAX_AXES = 32
_LEGACY_AXES = ("num", "channels", "height", "width")


class BlobShape(ABC):
    """What blobs and parameters share: their shape, and its old names."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The sizes of all axes."""

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def num(self) -> int:
        """The size of axis 0; 1 where there is none. Raises UsageError for more than four axes."""
        return self._legacy_size(0)

    @property
    def channels(self) -> int:
        """The size of axis 1; as `num`."""
        return self._legacy_size(1)

    @property
    def height(self) -> int:
        """The size of axis 2; as `num`."""
        return self._legacy_size(2)

    @property
    def width(self) -> int:
        """The size of axis 3; as `num`."""
        return self._legacy_size(3)

    def _legacy_size(self, axis: int) -> int:
        if len(self.shape) > len(_LEGACY_AXES):
            raise UsageError(f"a blob of {len(self.shape)} axes has no {_LEGACY_AXES[axis]}: use shape[{axis}]")
        return self.shape[axis] if axis < len(self.shape) else 1


class Blob(BlobShape):
    """A blob: ``data`` and ``diff`` are NumPy arrays that stay the same while the shape does.

    What is written into them is what the next `Net.forward` and `Net.backward` read; these write their results into
    the same arrays.
    """

    def __init__(self, *shape: int, dtype: str = "float32"):
        self._shape = _check_shape(shape)
        self.dtype = dtype
        self._arrays: dict[str, np.ndarray] = {}
        self._exported: set[str] = set()  # "data", "diff": which of them somebody else may refer to

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def data(self) -> np.ndarray:
        """The elements, an array that may be written to."""
        return self._export("data")

    @property
    def diff(self) -> np.ndarray:
        """The gradient of the loss with respect to the elements, an array that may be written to."""
        return self._export("diff")

    def reshape(self, *shape: int) -> None:
        """Give the blob another shape. Its elements are then zeros; arrays that were read before are not its own any
        more. `Net.reshape`, and the next `Net.forward`, give all that depends on it the shapes that follow."""
        if _check_shape(shape) != self._shape:
            self._shape = tuple(shape)
            self._arrays.clear()
            self._exported.clear()

    def read(self, what: str) -> np.ndarray:
        """``data`` or ``diff`` for a caller that only reads it at once."""
        if what not in self._arrays:
            self._arrays[what] = np.zeros(self._shape, self.dtype)
        return self._arrays[what]

    def store(self, what: str, array: Any) -> None:
        """Set ``data`` or ``diff``. The array itself is kept where nobody refers to the one before."""
        array = np.asarray(array)
        self.reshape(*array.shape)
        own = self._arrays.get(what)
        if own is array:
            return
        if own is None or what not in self._exported:
            usable = array.dtype == self.dtype and array.flags.writeable
            self._arrays[what] = array if usable else array.astype(self.dtype)
        else:
            own[...] = array

    def _export(self, what: str) -> np.ndarray:
        self._exported.add(what)
        return self.read(what)


def _check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) > MAX_AXES or any(size < 0 for size in shape):
        raise UsageError(f"a blob has at most {MAX_AXES} axes, each of at least 0 elements, not {list(shape)}")
    return tuple(int(size) for size in shape)
