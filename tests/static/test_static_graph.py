"""Static graphs: values, gradients, variables and optimizers' steps, against NumPy by hand and eager tensors."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ShapeError, UsageError

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def test_the_graph_of_a_product_and_a_sum():
    x, y, z = (pt.Input((4,)) for _ in range(3))
    c = (x * y + z).sum()
    graph = pt.Graph([x, y, z], [c, *pt.gradients(c, [x, y, z])])
    a, b, d = normal(3, 4), normal(3, 4), normal(3, 4)
    for _ in range(2):
        value, gx, gy, gz = graph(a, b, d)
        np.testing.assert_allclose(value, (a * b + d).sum(), rtol=1e-5)
        np.testing.assert_array_equal(gx, b)
        np.testing.assert_array_equal(gy, a)
        np.testing.assert_array_equal(gz, np.ones((3, 4)))
    assert graph(normal(7, 4), normal(7, 4), normal(7, 4))[1].shape == (7, 4)


def two_layers(w1: np.ndarray, w2: np.ndarray, x: np.ndarray, y: np.ndarray):
    """Loss and gradients of the net with one hidden layer, by hand."""
    h = x @ w1
    hr = np.maximum(h, 0)
    d = hr @ w2 - y
    g = 2 * d
    gh = g @ w2.T
    gh[h < 0] = 0
    return (d * d).sum(), x.T @ gh, hr.T @ g


def test_weights_fed_at_each_run_and_weights_in_the_graph():
    x, y, w1, w2 = normal(8, 20), normal(8, 3), normal(20, 10), normal(10, 3)
    symbol_x, symbol_y, symbol_1, symbol_2 = pt.Input((20,)), pt.Input((3,)), pt.Input((10,)), pt.Input((3,))

    def loss_of(a, b):
        return (((symbol_x @ a).clamp(min=0) @ b - symbol_y) ** 2).sum()

    loss = loss_of(symbol_1, symbol_2)
    fed = pt.Graph([symbol_x, symbol_y, symbol_1, symbol_2], [loss, *pt.gradients(loss, [symbol_1, symbol_2])])
    kept_1, kept_2 = pt.Variable(w1), pt.Variable(w2)
    loss = loss_of(kept_1, kept_2)
    g1, g2 = pt.gradients(loss, [kept_1, kept_2])
    updates = pt.group(kept_1.assign(kept_1 - 1e-4 * g1), kept_2.assign_sub(1e-4 * g2))
    kept = pt.Graph([symbol_x, symbol_y], loss, updates=[updates])
    only_loss = pt.Graph([symbol_x, symbol_y], loss)
    a, b = w1.copy(), w2.copy()
    for _ in range(20):
        want, da, db = two_layers(a, b, x, y)
        value, ga, gb = fed(x, y, a, b)
        np.testing.assert_allclose(value, want, rtol=1e-5)
        np.testing.assert_allclose(ga, da, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(gb, db, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(only_loss(x, y), want, rtol=1e-4)  # reads, and does not change
        np.testing.assert_allclose(kept(x, y), want, rtol=1e-4)
        a, b = a - 1e-4 * da, b - 1e-4 * db
    np.testing.assert_allclose(kept_1.value, a, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kept_2.value, b, rtol=1e-4, atol=1e-5)


def test_an_assigned_variable_is_read_as_it_was():
    v = pt.Variable(1.0)
    graph = pt.Graph([], [v, v.assign(v + 1), v * 10])
    assert [[float(x) for x in graph()] for _ in range(2)] == [[1, 2, 10], [2, 3, 20]]
    v.value = 5
    assert float(graph()[2]) == 50


def test_assignments_see_the_values_from_before_the_run():
    a, b = pt.Variable([1.0, 2.0]), pt.Variable([3.0, 4.0])
    graph = pt.Graph([], [a[::1], b], updates=[a.assign(b), b.assign(a)])
    assert [x.tolist() for x in graph()] == [[1, 2], [3, 4]]
    assert [a.value.tolist(), b.value.tolist()] == [[3, 4], [1, 2]]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_minimize_does_what_fit_does(optimizer):
    x, y = normal(16, 5), normal(16, 2)
    rule = {"SGD": {"learning_rate": 0.05, "momentum": 0.9}}.get(optimizer, {"learning_rate": 0.01})
    pt.manual_seed(0)
    model = pt.Sequential([pt.Input((5,)), pt.layers.Dense(2)])
    model.compile(getattr(pt.optimizers, optimizer)(**rule), "mse")
    kernel = np.array(next(iter(model.get_weights().values())))
    w, b = pt.Variable(kernel), pt.Variable(np.zeros(2, "float32"))
    symbol_x, symbol_y = pt.Input((5,)), pt.Input((2,))
    loss = ((symbol_x @ w + b - symbol_y) ** 2).mean()
    step = getattr(pt.optimizers, optimizer)(**rule).minimize(loss)
    graph = pt.Graph([symbol_x, symbol_y], loss, updates=[step])
    losses = [float(graph(x, y)) for _ in range(5)]
    history = model.fit(x, y, batch_size=16, epochs=5, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, history, rtol=1e-4)


def test_layers_in_a_graph_are_trained():
    x, y = pt.Input((6,)), pt.Input((2,))
    hidden = pt.layers.Dense(8, activation="relu", kernel_initializer="glorot_uniform")(x)
    loss = ((pt.layers.Dense(2)(hidden) - y) ** 2).mean()
    graph = pt.Graph([x, y], loss, updates=[pt.optimizers.Adam(0.01).minimize(loss)])
    a, b = normal(32, 6), normal(32, 2)
    losses = [float(graph(a, b)) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_second_gradients():
    x = pt.Input((3,))
    y = (x**4).sum()
    (first,) = pt.gradients(y, [x])
    second = pt.gradients(first, x)
    a = normal(2, 3)
    np.testing.assert_allclose(pt.Graph(x, second)(a), 12 * a**2, rtol=1e-4)


def test_functions_of_the_package_and_arrays_on_the_left():
    x = pt.Input((3,))
    a, n = normal(2, 3), normal(2, 3)
    graph = pt.Graph(x, [pt.exp(x), pt.cat([x, x], dim=1), n + x, pt.softmax(x, dim=1)[:, 0], pt.max(x, dim=1)[0]])
    e, c, s, p, m = graph(a)
    np.testing.assert_allclose(e, np.exp(a), rtol=1e-6)
    np.testing.assert_array_equal(c, np.concatenate([a, a], 1))
    np.testing.assert_array_equal(s, n + a)
    np.testing.assert_allclose(p, (np.exp(a) / np.exp(a).sum(1, keepdims=True))[:, 0], rtol=1e-5)
    np.testing.assert_array_equal(m, a.max(1))


def test_operators_are_layers_in_a_model():
    x, y = pt.Input((3,)), pt.Input((3,))
    model = pt.Model([x, y], (2 * x + 1) * y - x / 4 + abs(-y) ** 2)
    a, b = normal(5, 3), normal(5, 3)
    np.testing.assert_allclose(model.predict([a, b]), (2 * a + 1) * b - a / 4 + b**2, rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match=r"the function cumsum of symbolic tensors is possible in a pt\.Graph"):
        pt.Model(x, pt.cumsum(x, dim=1))
    with pytest.raises(UsageError, match=r"belongs to a pt\.Graph"):
        pt.Model(x, x * pt.Variable(1.0))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: pt.Graph(pt.Input((2,)), pt.Input((2,)) + 1), UsageError, "not among the inputs"),
        (lambda: pt.Graph(pt.Input((2,)) + 1, []), UsageError, r"must be pt\.Input symbols"),
        (lambda: pt.Graph([], [3]), UsageError, "outputs must be symbolic tensors, got int"),
        (lambda: pt.Graph([], [], [pt.Variable(1.0)]), UsageError, "updates are assignments"),
        (lambda: pt.Graph([], pt.Variable(1.0))(1), UsageError, "has 0 inputs, got 1 arrays"),
        (lambda: pt.Variable("zeros"), UsageError, "needs a shape"),
        (lambda: pt.Variable(1.0).assign(3), UsageError, "expected a symbolic tensor, got int"),
        (lambda: pt.group(pt.Variable(1.0)), UsageError, "expected assignments"),
        (lambda: pt.gradients(3, []), UsageError, "outputs must be symbolic tensors, got int"),
        (lambda: pt.optimizers.SGD().minimize(pt.tensor(1.0)), UsageError, "expected a symbolic tensor, got Tensor"),
        (lambda: pt.optimizers.SGD().minimize(pt.Variable(1.0), [pt.Input((2,))]), UsageError, "expected variables"),
        (lambda: pt.Graph([], [], [pt.optimizers.SGD().minimize(pt.nn.Linear(2, 1)(pt.Variable([1.0, 2.0])).sum())]),
         UsageError, r"an argument of nn\.functional\.linear is a tensor \[1, 2\] that requires a gradient"),
    ],
)  # fmt: skip
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_arrays_that_do_not_fit():
    x = pt.Input((2,), name="x")
    graph = pt.Graph(x, x + 1)
    with pytest.raises(ShapeError, match=r"the input 'x' takes float32\[any, 2\], got float32\[3, 4\]"):
        graph(np.zeros((3, 4)))
    v = pt.Variable(1.0)
    loss = (x * v).sum(dim=0)
    with pytest.raises(UsageError, match="must be one number"):
        pt.Graph(x, [], [pt.optimizers.SGD().minimize(loss)])(np.zeros((3, 2)))
    with pytest.raises(UsageError, match="depends on no trainable variable"):
        pt.Graph(x, [], [pt.optimizers.SGD().minimize(x.sum())])(np.zeros((3, 2)))
