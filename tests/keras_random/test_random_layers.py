"""Random layers beside Keras: outputs, masks, gradients of inputs and weights, moving statistics, extra losses."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.errors import ShapeError, UsageError
from tests.keras_random.differences import differs
from tests.keras_random.draw import drawing, seeds, set_keras_dtype
from tests.keras_random.layer_cases import draw_case, layers_of_both
from tests.keras_random.layer_sides import KerasRefusesError, keras_results, keras_takes, our_results

# Keras computes matrix products and means in float32 whatever its dtype policy: sums of at most a few hundred products.
TOLERANCE = 2e-5
LARGEST = 1e5  # a case that explodes (a power of a power) shows nothing but its rounding
pytestmark = pytest.mark.filterwarnings("ignore")


def assert_close(name, ours, theirs):
    """Equal up to rounding, relative to the largest element."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert ours.shape == theirs.shape, f"{name}: shape {ours.shape}, Keras {theirs.shape}"
    scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale, err_msg=name)


def both_results(draw, cls, dtype):
    """The results of both sides for the first random case that Keras takes. What we refuse Keras must refuse."""
    for _ in range(30):
        case = draw_case(draw, cls, dtype)
        try:
            ours, weights = our_results(case)
        except (ShapeError, UsageError) as error:
            try:
                keras_takes(case)
            except KerasRefusesError:
                continue
            raise AssertionError(f"Keras takes what is refused here: {error}") from error
        try:
            theirs = keras_results(case, weights)
        except KerasRefusesError:
            continue
        if all(np.abs(array).max(initial=0) < LARGEST for array in (*theirs.outputs, *theirs.arrays.values())):
            return case, ours, theirs
    raise AssertionError(f"no random case of {cls.__name__} that both take")


@pytest.mark.parametrize("seed", seeds(80, 800))
def test_layer_is_keras(seed):
    classes = layers_of_both()
    with drawing("layers", seed) as draw:
        dtype = "float64" if seed < 80 or draw.chance() else "float32"
        set_keras_dtype(dtype)
        case, ours, theirs = both_results(draw, classes[seed % len(classes)], dtype)
        assert len(ours.outputs) == len(theirs.outputs)
        for i, (a, b) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
            positions = case.compared_positions(i)
            assert_close(f"output {i}", np.where(positions, a, 0), np.where(positions, b, 0))
        has_scores = case.call.get("return_attention_scores") and differs("The mask of attention scores")
        for i, (a, b) in enumerate(zip(ours.masks[: 1 if has_scores else None], theirs.masks, strict=not has_scores)):
            every = np.ones((1, 1), bool)  # no mask and one that leaves nothing out mean the same
            a, b = np.broadcast_arrays(every if a is None else a, every if b is None else b)
            np.testing.assert_array_equal(a, b, err_msg=f"mask {i}")
        for name in ours.arrays.keys() | theirs.arrays.keys():
            zero = np.zeros_like(theirs.arrays.get(name, ours.arrays.get(name)))
            assert_close(name, ours.arrays.get(name, zero), theirs.arrays.get(name, zero))
