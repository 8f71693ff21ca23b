"""CuPy as the array namespace of reference implementations, so that these can be captured in a CUDA graph.

During a capture nothing may be copied from the host. CuPy's `concat` and `stack` do so (they upload a list of
addresses), as does `asarray` of any scalar. Here constants are uploaded once and cached: a reference implementation
that has run once needs the same ones again. The arrays that `asarray` returns are shared and must not be written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["CapturableNamespace"]


class CapturableNamespace:
    """The functions of an array module, some of them replaced by ones that can be captured."""

    def __init__(self, module: Any):
        self.module = module
        self._constants: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def asarray(self, array: Any, dtype: Any = None, **options: Any) -> Any:
        """An array of the module; one made from elements of the host is cached."""
        if isinstance(array, self.module.ndarray):
            return self.module.asarray(array, dtype=dtype, **options)
        host = np.asarray(array, dtype=dtype)
        key = (host.shape, host.dtype.name, host.tobytes())
        constant = self._constants.get(key)
        if constant is None:
            constant = self._constants[key] = self.module.asarray(host)
        return constant

    def argsort(self, array: Any, axis: int = -1, stable: bool = True) -> Any:
        """The indices that sort an axis; CuPy's sort is always stable and has no argument for it."""
        return self.module.argsort(array, axis=axis, kind="stable")

    def concat(self, arrays: Sequence[Any], axis: int | None = 0) -> Any:
        """Arrays joined along an axis, each copied to its offset."""
        if axis is None:
            arrays, axis = [a.reshape(-1) for a in arrays], 0
        axis %= arrays[0].ndim
        shape = list(arrays[0].shape)
        shape[axis] = sum(a.shape[axis] for a in arrays)
        out = self.module.empty(tuple(shape), dtype=np.result_type(*(a.dtype for a in arrays)))
        leading, offset = (slice(None),) * axis, 0
        for array in arrays:
            out[(*leading, slice(offset, offset + array.shape[axis]))] = array
            offset += array.shape[axis]
        return out

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Arrays of one shape along a new axis."""
        axis %= arrays[0].ndim + 1
        return self.concat([a[(*(slice(None),) * axis, None)] for a in arrays], axis=axis)
