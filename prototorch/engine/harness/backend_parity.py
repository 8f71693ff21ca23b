"""A layer on one backend compared with the CPU's reference implementations in float32: outputs and gradients, in any
precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.backends.precision import PrecisionPolicy, numpy_dtype
from prototorch.engine.harness.case import Case
from prototorch.engine.harness.layer_graph import CompiledLayer, TracedLayer, differentiate, named_outputs, trace_layer
from prototorch.graph.ir import Graph

#: What an array may differ by, as its distance from the expected one in units of that one's length (both Euclidean).
#: float32: sums of a few hundred products in another order. tf32 rounds factors to 10 bits, float16 every stored value
#: to 11, bfloat16 to 8; the rounding of each of some ten ops after one another adds up like independent draws, to about
#: three times that of one.
TOLERANCE = {"fp32": 1e-5, "tf32": 4e-3, "fp16": 4e-3, "bf16": 3e-2}
#: Gradients go through several times as many roundings, and through products of values that were rounded.
GRADIENT_FACTOR = 6.0
#: The length that an array is compared with is at least this, times the square root of its number of elements: a
#: gradient may be the small rest of a sum of numbers around 1 (that of a key's bias is 0 exactly). In lower precision
#: these terms are rounded one by one.
MIN_SCALE, MIN_SCALE_NARROW = 1e-2, 1e-1


def assert_close(got: Any, expected: Any, tolerance: float, what: str, least: float = MIN_SCALE) -> None:
    """Assert that two arrays agree, by the distance between them as a whole."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape} instead of {expected.shape}"
    if expected.dtype.kind != "f":
        assert np.array_equal(got, expected), f"{what}: {got} instead of {expected}"
        return
    assert np.array_equal(np.isfinite(got), np.isfinite(expected)), f"{what}: not finite where it should be, or reverse"
    finite = np.isfinite(expected)
    far = float(np.linalg.norm(got[finite].astype(np.float64) - expected[finite]))
    scale = max(float(np.linalg.norm(expected[finite].astype(np.float64))), least * np.sqrt(max(expected.size, 1)))
    assert far <= tolerance * scale, f"{what}: off by {far / scale:.3g} of its length"


def assert_backend_agrees(case: Case, backend: Backend) -> None:
    """Outputs and gradients of a layer's example on a backend are those of the CPU, within what its precision allows.

    The inputs are rounded to the narrow type first, so that no kink lies between two readings of one number. Raises
    AssertionError.
    """
    precision = backend.precision
    weights = {n: _round_to(a, precision) for n, a in case.weights("float32").items()}
    inputs = [_round_to(x, precision) for x in case.inputs("float32")]
    tolerance = TOLERANCE[precision.name] * case.tolerance
    for training in case.phases:
        both = ((_trace(case, training, precision.low_dtype), backend), (_trace(case, training, None), cpu("plain")))
        results = [
            CompiledLayer(one, _outputs_and_gradients(one, case), on, weights)(inputs, case.mask()) for one, on in both
        ]
        assert results[0].keys() == results[1].keys()
        for name, expected in results[1].items():
            gradient = name.startswith("d")
            room = tolerance * (GRADIENT_FACTOR if gradient else 1.0)
            least = MIN_SCALE_NARROW if gradient and precision.low_dtype is not None else MIN_SCALE
            assert_close(results[0][name], expected, room, f"{name}, training={training}", least)


def _trace(case: Case, training: bool, low: str | None) -> TracedLayer:
    return trace_layer(Graph(), case.instance, case.specs("float32"), training, "float32", case.mask(), low)


def _outputs_and_gradients(one: TracedLayer, case: Case) -> dict[str, Any]:
    expected = named_outputs(one)
    if case.extra("gradient", True) and one.variables and any(v.spec.is_float for v in one.outputs):
        differentiate(one, {n: np.ones(v.shape, v.dtype) for n, v in one.variables.items()}, case.seed)
        expected |= {f"d{n}": g for n, g in one.grads.items()}
    return expected


def _round_to(array: np.ndarray, precision: PrecisionPolicy) -> np.ndarray:
    if precision.low_dtype is None or array.dtype.kind != "f":
        return array
    return array.astype(numpy_dtype(precision.low_dtype)).astype(array.dtype)
