"""A function as the activation of a layer: ours by name, in texts and exports, with the function's numbers; others are
refused with their line."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.eager.layer_call import run_layer
from prototorch.eager.namespace import FUNCTIONS
from prototorch.errors import UsageError

F = pt.nn.functional
CASES = {
    **{f"pt.{name}": function for name, function in FUNCTIONS.items() if not name.endswith("_")},
    **{f"F.{name}": getattr(F, name) for name in F.__all__ if not name.endswith("_")},
    **{f"ops.{name}": getattr(pt.ops, name) for name in dir(pt.ops)},
    "Tensor.relu": pt.Tensor.relu,
}
X = np.linspace(-7, 7, 45, dtype="float32").reshape(9, 5)


def activation_of(function):
    try:
        return pt.layers.Dense(5, activation=function).activation
    except UsageError:
        return None


LAYERS = {name: layer for name, f in CASES.items() if callable(f) and (layer := activation_of(f)) is not None}


def test_which_functions_are_activations():
    names = """pt.relu pt.tanh pt.sigmoid pt.softmax F.relu F.elu F.gelu F.selu F.leaky_relu F.silu F.softplus F.mish
        F.hardswish F.log_softmax F.softsign F.relu6 ops.relu ops.tanh ops.gelu Tensor.relu"""
    assert set(names.split()) <= set(LAYERS)
    assert not {"pt.maximum", "F.prelu", "ops.prelu", "ops.add", "F.mse_loss", "pt.square"} & set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_has_the_numbers_of_the_function(name):
    function, options = CASES[name], {}
    if "dim" in inspect.signature(function).parameters:
        options = {"dim": -1}
    if name == "ops.leaky_relu":
        options = {"negative_slope": 0.01}
    expected = function(pt.tensor(X), **options).numpy()
    np.testing.assert_allclose(run_layer(LAYERS[name], [pt.tensor(X)]).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_in_every_field_and_in_texts_and_files(tmp_path):
    x = pt.Input((4, 3))
    y = pt.layers.LSTM(3, activation=pt.tanh, recurrent_activation=F.sigmoid, return_sequences=True)(x)
    y = pt.layers.Conv1D(2, 3, activation=F.leaky_relu)(y)
    y = pt.layers.Activation(pt.nn.functional.gelu)(pt.layers.Dense(2, activation=pt.relu)(pt.layers.Flatten()(y)))
    model = pt.Model(x, y)
    text = model.to_text()
    assert "activation: relu" in text
    assert "negative_slope: 0.01" in text
    data = np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32")
    model.save(tmp_path / "m.h5")
    expected = model.predict(data)
    np.testing.assert_allclose(pt.load_model(tmp_path / "m.h5").predict(data), expected, rtol=1e-6)
    model.export(tmp_path / "m.onnx")
    assert b"LeakyRelu" in (tmp_path / "m.onnx").read_bytes()


def test_in_a_static_graph_as_in_the_lecture():
    """tf.layers.dense(inputs=x, units=H, activation=tf.nn.relu)"""
    x = pt.Input((3,))
    graph = pt.Graph(x, pt.layers.Dense(4, activation=F.relu, name="h")(x))
    value = graph(X[:, :3])
    weights = [graph.variables[f"h/{n}"].value for n in ("kernel", "bias")]
    np.testing.assert_allclose(value, np.maximum(X[:, :3] @ weights[0] + weights[1], 0), rtol=1e-5, atol=1e-6)


def own_activation(x):
    return x * 2


def test_others_are_refused_with_their_line():
    line = inspect.getsourcelines(own_activation)[1]
    with pytest.raises(
        UsageError,
        match=rf"Dense\.activation cannot be the function own_activation \(.*functions\.py, line {line}\): a text",
    ):
        pt.layers.Dense(3, activation=own_activation)
    with pytest.raises(UsageError, match=r"GRU\.recurrent_activation cannot be the function <lambda> \(.*, line \d+\)"):
        pt.layers.GRU(3, recurrent_activation=lambda x: x)
    with pytest.raises(UsageError, match=r"cannot be the function maximum: .* Write the name of an activation"):
        pt.layers.Dense(3, activation=pt.maximum)
    with pytest.raises(UsageError, match=r'cannot be the function silu .*Write "silu"'):
        pt.layers.Dense(3, activation=torch.nn.functional.silu)
    with pytest.raises(UsageError, match=r'cannot be the function relu: .*Write "relu"'):
        pt.layers.Activation(torch.relu)
    with pytest.raises(UsageError, match=r"must be an activation, not ReLU\(\).* write pt\.layers\.ReLU\(\)"):
        pt.layers.Dense(3, activation=pt.nn.ReLU())
