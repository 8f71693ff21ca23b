"""Constants that are known by their spec until their elements are needed: shapes are inferred without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["LazyArray"]


class LazyArray:
    """An array of a shape and a dtype whose elements ``compute()`` gives when they are first read, by `numpy.asarray`.

    It takes the place of a NumPy array as an input of an op. The elements are computed once.
    """

    __slots__ = ("_array", "_compute", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, compute: Callable[[], Any]):
        self.shape, self.dtype, self._compute = shape, dtype, compute
        self._array: np.ndarray | None = None

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def astype(self, dtype: Any) -> LazyArray:
        """The same elements in another dtype, not computed yet."""
        return LazyArray(self.shape, str(np.dtype(dtype)), lambda: self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._array is None:
            self._array = np.asarray(self._compute()).astype(np.dtype(self.dtype), copy=False)
            assert self._array.shape == self.shape
        return np.array(self._array, dtype=dtype, copy=copy)
