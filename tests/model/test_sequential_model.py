"""`Sequential` layer by layer, as in Keras: add, pop, the shape of the input from a layer or from data."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError

X = np.random.default_rng(0).standard_normal((12, 4)).astype("float32")
Y = X[:, :2] * 2


@pytest.mark.parametrize("how", ["input", "input_shape", "input_dim", "data"])
def test_models_made_layer_by_layer_are_those_of_a_list(how):
    model = pt.Sequential(name="net")
    if how == "input":
        model.add(pt.Input((4,)))
    first = {"input_shape": {"input_shape": (4,)}, "input_dim": {"input_dim": 4}}.get(how, {})
    model.add(pt.layers.Dense(3, **first))
    model.add(pt.layers.Activation("tanh"))
    model.add(pt.layers.Dense(2))
    assert model.built == (how != "data")
    model.compile(optimizer=pt.optimizers.SGD(0.1), loss="mse", seed=3)
    history = model.fit(X, Y, epochs=3, batch_size=4, verbose=0).history["loss"]
    other = pt.Sequential([pt.Input((4,)), pt.layers.Dense(3), pt.layers.Activation("tanh"), pt.layers.Dense(2)])
    other.compile(optimizer=pt.optimizers.SGD(0.1), loss="mse", seed=3)
    np.testing.assert_array_equal(history, other.fit(X, Y, epochs=3, batch_size=4, verbose=0).history["loss"])
    assert model.to_text().splitlines()[1:] == other.to_text().splitlines()[1:]
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


def test_layers_are_taken_away_and_weights_stay():
    model = pt.Sequential([pt.Input((4,)), pt.layers.Dense(3), pt.layers.Dense(2)])
    before = model.predict(X)
    kernel = np.array(model.get_weights()["dense_1/kernel"])
    last = model.pop()
    assert isinstance(last, pt.layers.Dense)
    np.testing.assert_array_equal(model.get_weights()["dense_1/kernel"], kernel)
    model.add(last)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda: pt.Sequential().summary(), "not built yet"),
        (lambda: pt.Sequential([pt.layers.Dense(2)]).save("x.h5"), "not built yet"),
        (lambda: pt.Sequential().pop(), "has no layers"),
        (lambda: pt.Sequential().add(3), "add is 3, not a layer"),
        (lambda: pt.Sequential([pt.layers.Dense(2), pt.Input((3,))]), "must be the first item"),
        (lambda: pt.Sequential([pt.Input((3,)), pt.Input((3,))]), "must be the first item"),
        (lambda: pt.layers.Dense(2, input_shape="4"), "input_shape must be a list of positive integers"),
        (lambda: pt.Sequential(3), "expected a list"),
        (lambda: pt.Sequential([pt.layers.Dense(2)]).predict("text"), "the shape of the input is not known"),
    ],
)
def test_mistakes(do, message):
    with pytest.raises(UsageError, match=message):
        do()


def test_a_model_may_stand_in_the_place_of_a_layer():
    base = pt.Sequential([pt.Input((4,)), pt.layers.Dense(3, name="a"), pt.layers.Dense(2, name="b")])
    base.trainable = False
    whole = pt.Sequential([base, pt.layers.Dense(1, name="head")])
    second = pt.Sequential([pt.Input((4,)), base])
    second.add(pt.layers.Dense(1, name="head"))
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    start = {name: np.array(array) for name, array in base.weights.items()}
    whole.compile("adam", "mse")
    whole.fit(x, x[:, :1], epochs=2, verbose=0)
    for name, array in start.items():
        np.testing.assert_array_equal(whole.weights[name], array)
        assert second.weights[name] is base.weights[name] or np.array_equal(second.weights[name], array)
    hidden = base.predict(x)
    np.testing.assert_allclose(
        whole.predict(x), hidden @ whole.weights["head/kernel"] + whole.weights["head/bias"], rtol=1e-5, atol=1e-6
    )
    assert whole.pop().name == "head"


def test_a_model_of_several_inputs_is_no_item():
    a, b = pt.Input((2,), name="a"), pt.Input((2,), name="b")
    pair = pt.Model([a, b], pt.layers.Add()(a, b), name="pair")
    with pytest.raises(UsageError, match=r"the model 'pair' of 2 inputs and 1 outputs, and each item has one of both"):
        pt.Sequential([pair])
