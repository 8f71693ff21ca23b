"""Data on which the plans of a graph are timed: finite, seeded, and of ordinary size.

Zeros are faster than other data (the card draws less power), what memory happens to contain may be NaN, and a mask or a
statistic that fits nothing else overflows.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, prod
from typing import Any

import numpy as np

from prototorch.cuda.cudnn.graph_desc import GraphDesc
from prototorch.cuda.device_protocol import CudaDevice
from prototorch.engine.backends.precision import numpy_dtype

__all__ = ["make_trial_arrays"]

PERIOD = 1_000_003  # elements, after which the values repeat: a prime, so that rows differ


def make_trial_arrays(device: CudaDevice, desc: GraphDesc) -> dict[str, Any]:
    """An array on the device for each tensor of a graph.

    Tensors of floats hold normal numbers, the same in every run; the softmax statistics of attention hold what such
    numbers lead to; booleans are true and integers 0. Raises ResourceError where there is not enough memory.
    """
    arrays = {}
    for index, (name, tensor) in enumerate(desc.tensors):
        values = _typical_values(desc, name, tensor.dtype, index)
        array = device.alloc(tensor.size * values.itemsize)
        _fill(device, array, values.view(np.uint8))
        arrays[name] = array
    return arrays


def _typical_values(desc: GraphDesc, name: str, dtype: str, seed: int) -> np.ndarray:
    if name == "stats":  # log(sum(exp(scores))) of scores that are products of normal numbers
        *_, keys, depth = desc.tensor("k").dims
        variance = depth * float(dict(desc.attrs).get("scale", 1.0)) ** 2
        return np.full(1, log(keys) + min(variance, 100.0) / 2, numpy_dtype(dtype))
    if dtype == "bool":
        return np.ones(1, np.bool_)
    if not dtype.endswith(("float16", "float32", "float64")):
        return np.zeros(1, dtype)
    return _normal_numbers(dtype, seed)


@lru_cache(maxsize=8)
def _normal_numbers(dtype: str, seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).standard_normal(PERIOD, np.float32)
    return numbers.astype(numpy_dtype(dtype))


def _fill(device: CudaDevice, array: Any, pattern: np.ndarray) -> None:
    """Fill an array of bytes with a pattern: its first period from the host, the rest by copies on the device."""
    size = prod(array.shape)
    filled_size = min(len(pattern), size)
    device.overwrite(array[:filled_size], np.ascontiguousarray(pattern[:filled_size]))
    while filled_size < size:
        count = min(filled_size, size - filled_size)
        device.copy_on_device(array[filled_size : filled_size + count], array[:count])
        filled_size += count
