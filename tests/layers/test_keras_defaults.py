"""Defaults are Keras': of all arguments, by inspection, and of the functions that activations' names stand for."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
from keras.src.activations import ALL_OBJECTS_DICT

import prototorch as pt
from prototorch import tensor
from prototorch.constraints import Constraint
from prototorch.engine.storage import checkpoint
from prototorch.initializers import Initializer
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.model.load import model_from_text
from prototorch.optimizers import Optimizer
from prototorch.regularizers import Regularizer
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse
from tests.keras_random.differences import differs

PEERS = {
    Layer: keras.layers,
    Loss: keras.losses,
    Metric: keras.metrics,
    Optimizer: keras.optimizers,
    Initializer: keras.initializers,
    Regularizer: keras.regularizers,
    Constraint: keras.constraints,
}

#: (class, argument): the row of docs/from-keras.md that says why the default is another one
DELIBERATE = {
    **dict.fromkeys([("BatchNormalization", "axis"), ("GroupNormalization", "axis"), ("Normalization", "axis")],
                    "Axis of normalization layers"),
    ("Concatenate", "axis"): "Axis of Concatenate",
    ("MeanIoU", "num_classes"): "MeanIoU reads the net's outputs",
    **{(f"AveragePooling{n}D", "pool_size"): "Window of average pooling" for n in (1, 2, 3)},
}  # fmt: skip


#: arguments whose default is None there, with which Keras refuses to make the object
NEEDED_THERE = {("CategoryEncoding", "num_tokens")}


def arguments():
    for root, module in PEERS.items():
        for name, cls in root.members().items():
            peer = getattr(module, name, None)
            if inspect.isclass(peer) and cls.__module__.startswith("prototorch."):
                for argument, parameter in inspect.signature(peer.__init__).parameters.items():
                    if argument in cls.specs() and argument not in ("name", "trainable"):
                        yield cls, argument, parameter.default


def other_defaults():
    for cls, argument, theirs in arguments():
        spec = cls.specs()[argument]
        if spec.required or theirs is inspect.Parameter.empty:
            if (cls.__name__, argument) not in NEEDED_THERE and spec.required != (theirs is inspect.Parameter.empty):
                yield cls.__name__, argument
            continue
        required = [n for n, s in cls.specs().items() if s.required]
        needed = {n: getattr(first_example(cls), n) for n in required}
        made = cls(**needed)
        if theirs is None and getattr(made, argument) in (None, ActivationLayer.lookup("linear")()):
            continue
        if getattr(cls(**needed, **{argument: theirs}), argument) != getattr(made, argument):
            yield cls.__name__, argument


def first_example(cls):
    """The block of the first example, which has values for the required fields."""
    document = parse(cls.examples[0].text, "example")
    return cls.from_fields(document.fields[0].value.fields, Report(), None)


def test_defaults_are_those_of_keras():
    assert set(other_defaults()) == {argument for argument, row in DELIBERATE.items() if differs(row)}
    assert len(list(arguments())) > 300


FUNCTIONS = sorted(n for n in ALL_OBJECTS_DICT if n in ActivationLayer.family_registry.names())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_name_of_an_activation_is_the_function_of_keras(name):
    x = np.concatenate([np.linspace(-9, 9, 181), [-1e4, -800, 800, 1e-9]]).reshape(1, -1)
    layer = pt.layers.Activation(name)
    theirs = ALL_OBJECTS_DICT[name](keras.ops.convert_to_tensor(x)).numpy()
    np.testing.assert_allclose(layer(tensor(x)).numpy(), theirs, rtol=1e-12, atol=1e-12)
    text = f'input {{ shape: [185]  dtype: "float32" }}\nDense {{ units: 1  activation: {name} }}'
    assert model_from_text(text).layers[0].activation == layer.activation


def test_the_layer_leaky_relu_keeps_the_slope_of_the_layer():
    assert pt.layers.LeakyReLU().negative_slope == 0.3
    assert pt.layers.Dense(1, activation=pt.layers.LeakyReLU).activation.negative_slope == 0.3
    assert pt.layers.Dense(1, activation="leaky_relu").activation.negative_slope == 0.2


@pytest.mark.parametrize("slope", [0.2, 0.3, 0.5])
def test_a_saved_model_states_the_slope(slope, tmp_path):
    x = pt.Input((3,))
    model = pt.Model(x, pt.layers.Dense(2, activation=pt.layers.LeakyReLU(negative_slope=slope))(x))
    assert f"activation: LeakyReLU {{ negative_slope: {slope} }}" in " ".join(model.to_text().split())
    model.save(tmp_path / "m.h5")
    assert pt.load_model(tmp_path / "m.h5").layers[0].activation.negative_slope == slope


def test_a_file_that_has_the_bare_word_keeps_the_slope_that_it_was_trained_with(tmp_path):
    x = pt.Input((3,))
    model = pt.Model(x, pt.layers.Dense(2, activation=pt.layers.LeakyReLU())(x))
    old = model.to_text().replace("LeakyReLU { negative_slope: 0.3 }", "leaky_relu")
    assert "activation: leaky_relu" in old
    model.build()
    checkpoint.save(tmp_path / "old.h5", old, model.variables, None)
    assert pt.load_model(tmp_path / "old.h5").layers[0].activation.negative_slope == 0.3
    (tmp_path / "new.proto").write_text(old)
    assert pt.load_model(tmp_path / "new.proto").layers[0].activation.negative_slope == 0.2
