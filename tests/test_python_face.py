"""What an interactive user meets: signatures, completion, reprs, spelling, pickles, cells run twice."""

from __future__ import annotations

import copy
import inspect

import pytest

import prototorch as pt
from prototorch.errors import TextError, did_you_mean
from prototorch.model.load import model_from_text

HEAD = 'input { name: "x"  shape: [4] }\nDense { units: 2 }\n'


def test_signatures_show_the_fields():
    names = list(inspect.signature(pt.layers.Conv2D).parameters)
    assert names[:3] == ["filters", "kernel_size", "strides"]
    assert inspect.signature(pt.layers.Dense).parameters["activation"].default == "linear"
    assert inspect.signature(pt.optimizers.Adam).parameters["learning_rate"].default == 0.001
    for family in (pt.layers, pt.losses, pt.metrics, pt.optimizers, pt.callbacks, pt.initializers):
        for name in dir(family):
            assert inspect.signature(getattr(family, name)) is not None


def test_completion_offers_what_is_meant_for_users():
    assert {"Conv2D", "Dense", "LSTM"} <= set(dir(pt.layers))
    assert "mean_squared_error" in dir(pt.losses)  # losses are functions, too
    for module in (pt.layers, pt.metrics, pt.optimizers, pt.callbacks):
        assert all(name[0].isupper() for name in dir(module))
    assert {"load_model", "Model", "layers"} <= set(dir(pt))
    assert not {"importlib", "Any", "annotations"} & set(dir(pt))
    assert all(getattr(pt, name) is not None for name in dir(pt) if not name.startswith("__") and name != "newaxis")


def test_a_misspelt_name_is_corrected():
    with pytest.raises(AttributeError, match="Did you mean 'Dense'"):
        _ = pt.layers.Dens
    assert did_you_mean("Relu", ["elu", "relu", "selu"]) == " Did you mean 'relu'?"
    assert did_you_mean("MaxPooling", pt.layers.Layer.members()) == " Did you mean 'MaxPooling2D'?"


def test_activation_none_is_keras_linear():
    assert pt.layers.Dense(3, activation=None) == pt.layers.Dense(3)


def test_a_layer_is_copied():
    layer = pt.layers.Dense(3)
    assert copy.deepcopy(layer) == layer


def test_a_cell_that_defines_a_layer_runs_twice():
    for factor in (2, 3):
        space = {"pt": pt, "factor": factor, "__name__": "cell"}
        exec("class CellTwice(pt.Layer):\n    def call(self, ctx, x):\n        return x * factor\n", space)
        model = pt.Sequential([pt.Input((1,)), space["CellTwice"]()])
        assert model.predict([[1.0]]) == [[factor]]


@pytest.mark.parametrize(
    ("line", "place"),
    [("epochs: 5", "fit"), ("optimizer: adam", "compile"), ("loss: mse", "compile"), ("batch_size: 3", "fit")],
)
def test_a_field_at_the_top_is_told_its_place(line, place):
    with pytest.raises(TextError, match=f"It belongs into {place} {{ }}"):
        model_from_text(HEAD + line)
