"""CuPy as the array module of plain bodies, so that these may be captured.

While a stream records, nothing may be copied from the host, and CuPy's `concat` and `stack` do so (they upload a list
of addresses), as does every `asarray` of a number. Here constants are uploaded once and kept: a body that was run once
asks for the same ones again. What is given back by `asarray` is shared, so bodies do not write into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class CapturableNamespace:
    """The functions of an array module, a few of them put in another way. All others are the module's own."""

    def __init__(self, module: Any):
        self.module = module
        self._constants: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def asarray(self, array: Any, dtype: Any = None, **options: Any) -> Any:
        """An array of the module; one made from numbers of the host is kept and given again."""
        if isinstance(array, self.module.ndarray):
            return self.module.asarray(array, dtype=dtype, **options)
        host = np.asarray(array, dtype=dtype)
        key = (host.shape, host.dtype.name, host.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.module.asarray(host)
        return found

    def argsort(self, array: Any, axis: int = -1, stable: bool = True) -> Any:
        """The order of the elements along an axis; CuPy's sort is always stable, and knows no word for it."""
        return self.module.argsort(array, axis=axis, kind="stable")

    def concat(self, arrays: Sequence[Any], axis: int | None = 0) -> Any:
        """Arrays one after the other, each copied to its place."""
        if axis is None:
            arrays, axis = [a.reshape(-1) for a in arrays], 0
        axis %= arrays[0].ndim
        shape = list(arrays[0].shape)
        shape[axis] = sum(a.shape[axis] for a in arrays)
        out = self.module.empty(tuple(shape), dtype=np.result_type(*(a.dtype for a in arrays)))
        lead, at = (slice(None),) * axis, 0
        for array in arrays:
            out[(*lead, slice(at, at + array.shape[axis]))] = array
            at += array.shape[axis]
        return out

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Arrays of one shape along a new axis."""
        axis %= arrays[0].ndim + 1
        return self.concat([a[(*(slice(None),) * axis, None)] for a in arrays], axis=axis)
