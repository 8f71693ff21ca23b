"""Merging layers against Keras."""

import keras
import numpy as np
import pytest
import torch

from tests.layers.compare import SINGLE, beside_keras, beside_torch, numbers, text_of
from tests.layers.peers import TOLERANCE, ours

ELEMENTWISE = ["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shapes", [[(2, 3), (2, 3)], [(2, 3, 2), (2, 1, 2)], [(2, 3), (2, 3), (1, 3)]], ids=str)
def test_elementwise_is_keras(name, shapes):
    if name == "Subtract" and len(shapes) > 2:
        pytest.skip("Subtract reads two inputs")
    inputs = [numbers(4, *s, seed=i) for i, s in enumerate(shapes)]
    tolerance = SINGLE if name in ("Maximum", "Minimum") else TOLERANCE
    beside_keras(getattr(keras.layers, name)(), f"{name} {{ }}", inputs, tolerance=tolerance)


@pytest.mark.parametrize(
    ("axis", "shapes"), [(1, [(2, 3), (1, 3), (4, 3)]), (-1, [(2, 3), (2, 1)]), (2, [(2, 3, 1), (2, 2, 1)])]
)
def test_concatenate_is_keras(axis, shapes):
    inputs = [numbers(4, *s, seed=i) for i, s in enumerate(shapes)]
    beside_keras(keras.layers.Concatenate(axis=axis), text_of("Concatenate", {"axis": axis}), inputs)


DOTS = [(1, (3,), (3,)), (-1, (2, 3), (4, 3)), ([2, 1], (2, 3), (3, 4)), ([1, 2], (3, 2), (4, 3)), (1, (3, 2), (3, 5))]


@pytest.mark.parametrize(("axes", "a", "b"), DOTS, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
def test_dot_is_keras(axes, a, b, normalize):
    given = tuple(axes) if isinstance(axes, list) else axes
    text = text_of("Dot", {"axes": axes, "normalize": normalize})
    inputs = [numbers(4, *a, seed=1), numbers(4, *b, seed=2)]
    beside_keras(keras.layers.Dot(given, normalize=normalize), text, inputs, tolerance=SINGLE)


@pytest.mark.parametrize("name", ["Maximum", "Minimum"])
def test_largest_and_smallest_are_pytorch(name):
    function = getattr(torch, name.lower())
    beside_torch(lambda x, w: function(*x), f"{name} {{ }}", [numbers(2, 3, seed=1), numbers(2, 3, seed=2)])


def test_cosine_similarity_is_pytorch():
    def cosine(x, w):
        return torch.nn.functional.cosine_similarity(x[0], x[1], dim=1)[:, None]

    beside_torch(cosine, "Dot { axes: 1  normalize: true }", [numbers(4, 3, seed=1), numbers(4, 3, seed=2)])


def test_dot_of_many_dimensions_is_einsum():
    a, b = numbers(2, 3, 4, 5), numbers(2, 5, 3, seed=7)
    (y,), _ = ours("Dot { axes: [3, 1] }", [a, b], {})
    np.testing.assert_allclose(y, np.einsum("bijk,bkl->bijl", a, b), rtol=1e-12)
