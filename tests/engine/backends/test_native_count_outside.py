"""The native kernel that counts values outside of their bounds, against Python's comparisons, at the ends of types."""

import math

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.cpu import native
from prototorch.engine.backends.devices import backend_for
from prototorch.ops.facts import ValueLimits
from prototorch.spec import Spec

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="there are no native kernels here")

COUNT = Spec((), "int32")


def is_outside(x, limits):
    low, high = -math.inf if limits.low is None else limits.low, math.inf if limits.high is None else limits.high
    return not low <= x <= high or (limits.excludes_zero and x == 0)


@pytest.mark.parametrize("seed", range(25))
def test_the_count_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    arrays, bounds = [], []
    for _ in range(rng.integers(1, 4)):
        kinds = ["int32", "int64", "uint8", "uint32", "float32", "float64"]
        dtype, size = rng.choice(kinds), int(rng.choice([1, 3, 8, 31, 64, 1001]))
        if dtype.startswith("float"):
            array = rng.normal(size=size).astype(dtype)
            array[rng.integers(size)] = rng.choice([0, 1, np.nan, np.inf])
            arrays.append(array)
            bounds.append(ValueLimits(0.0, rng.choice([1.0, None])))
            continue
        limits = np.iinfo(dtype)
        array = rng.integers(max(limits.min, -50), 60, size).astype(dtype)
        array[rng.integers(size)] = rng.choice([limits.min, 0, 7])
        array[rng.integers(size)] = limits.max
        arrays.append(array)
        high = int(rng.choice([5, 40, 300, 2**31 - 1, 2**31, 2**40]))
        bounds.append(
            ValueLimits(*((int(rng.integers(-20, 3)), high), (None, high), (None, None, True))[rng.integers(3)])
        )
    specs, attrs = tuple(Spec(a.shape, str(a.dtype)) for a in arrays), {"bounds": tuple(bounds)}
    backend, count = backend_for("cpu"), np.empty((), "int32")
    assert backend.kernel_level(ops.count_outside, specs, (COUNT,), attrs) == "native"
    with backend.run_context():
        backend.prepare(ops.count_outside, specs, (COUNT,), attrs)(arrays, [count])
    each = zip(arrays, bounds, strict=True)
    assert count == sum(is_outside(x, limits) for array, limits in each for x in array.tolist())
