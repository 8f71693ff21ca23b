"""Stochastic pooling in training: elements of the windows, drawn in proportion, with the gradient of those drawn."""

from __future__ import annotations

import numpy as np

import prototorch as pt
from prototorch import layers
from prototorch.layers.stochastic_pooling import draw_from_windows
from prototorch.ops.differentiation import gradients


class _Key:
    """What a layer asks its context for, with a key of its own."""

    def __init__(self, step: int):
        self.step = step

    def key(self):
        return pt.tensor(np.array([7, self.step], np.uint64))


def drawn(x: np.ndarray, step: int, kernel=(2, 2), strides=(2, 2)) -> np.ndarray:
    return np.asarray(draw_from_windows(_Key(step), pt.tensor(x), kernel, strides, True, 3).numpy())


def test_elements_are_drawn_in_proportion():
    x = np.broadcast_to(np.array([[1, 2], [0, 5]], np.float32), (1, 1000, 2, 2)).copy()
    values = np.concatenate([drawn(x, step).reshape(-1) for step in range(8)])
    shares = {v: float((values == v).mean()) for v in (0, 1, 2, 5)}
    assert shares[0] == 0
    for value, share in ((1, 1 / 8), (2, 2 / 8), (5, 5 / 8)):
        assert abs(shares[value] - share) < 5 * np.sqrt(share * (1 - share) / len(values))


def test_a_window_of_zeros_gives_0_and_windows_over_the_end_their_elements():
    x = np.zeros((2, 3, 5, 3), np.float32)
    assert (drawn(x, 0) == 0).all()
    x = np.random.default_rng(0).random((2, 3, 5, 3)).astype(np.float32)
    y = drawn(x, 1)
    assert y.shape == (2, 3, 3, 2)
    for n, c, i, j in np.ndindex(*y.shape):
        assert y[n, c, i, j] in x[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]


def test_the_first_element_that_reaches_the_share_is_drawn():
    x = np.broadcast_to(np.array([[2, -3], [4, 0]], np.float32), (1, 500, 2, 2)).copy()
    assert set(drawn(x, 0).reshape(-1)) == {2, 4}  # running sums of 2, -1, 3, 3: the second is below the first


def test_the_gradient_passes_to_the_element_that_was_drawn():
    x = pt.tensor(np.random.default_rng(0).random((2, 2, 4, 6)).astype(np.float32))
    g = np.random.default_rng(1).normal(size=(2, 2, 2, 3)).astype(np.float32)

    def draw(x):
        return draw_from_windows(_Key(5), x, (2, 2), (2, 2), True, 3)

    (gradient,) = gradients(draw, x, seeds=[pt.tensor(g)])
    found = np.asarray(gradient.numpy())
    y = drawn(np.asarray(x.numpy()), 5)
    expected = np.where(
        np.asarray(x.numpy()) == y.repeat(2, axis=2).repeat(2, axis=3), g.repeat(2, axis=2).repeat(2, axis=3), 0
    )
    np.testing.assert_array_equal(found, expected)


def test_another_draw_in_each_step():
    model = pt.Sequential([pt.Input((1, 8, 8)), layers.StochasticPooling2D()])
    x = np.random.default_rng(0).random((1, 1, 8, 8)).astype(np.float32)
    weighted = (x**2).reshape(4, 2, 4, 2).sum(axis=(1, 3)) / x.reshape(4, 2, 4, 2).sum(axis=(1, 3))
    np.testing.assert_allclose(model.predict(x)[0, 0], weighted, rtol=1e-6)
    assert not np.array_equal(drawn(x, 0), drawn(x, 1))
