"""Losses, accuracy and recurrent layers written as Caffe's, and read back as the same layers of ours."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.caffe.interop.export.net_export import export_net
from prototorch.caffe.interop.translate import translate_net
from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.writer import format_message
from prototorch.errors import TextError
from prototorch.model.load import model_from_text

SHAPES = {"x": (3, 2), "t": (2,), "u": (3,), "a": (6,), "b": (6,), "l": (1,), "s": (1, 4), "c": (1,), "v": (5,),
          "z": (2,)}  # fmt: skip
LAYERS = {
    "softmax": ("x t", 'SoftmaxCrossentropyLoss { ignore_class: 255  normalization: "full" }'),
    "softmax axis": ("x u", "SoftmaxCrossentropyLoss { axis: 2 }"),
    "sigmoid": ("a b", 'SigmoidCrossentropyLoss { ignore_class: -1  normalization: "valid" }'),
    "sigmoid mean": ("a b", "SigmoidCrossentropyLoss { }"),
    "euclidean": ("a b", "EuclideanLoss { }"),
    "hinge": ("a l", 'HingeLoss { norm: "l2" }'),
    "multinomial": ("a l", "MultinomialLogisticLoss { min_probability: 1e-20 }"),
    "contrastive": ("a b l", "ContrastivePairLoss { margin: 2  gradient_epsilon: 1e-4 }"),
    "legacy": ("a b l", "ContrastivePairLoss { legacy_version: true }"),
    "accuracy": ("x t", "ClassAccuracy { top_k: 2  per_class: true }"),
}


def net_text(inputs: str, layer: str, more: str = "") -> str:
    names = inputs.split()
    lines = [f'input {{ name: "{n}"  shape: {list(SHAPES[n])} }}' for n in names]
    bottoms = ", ".join(f'"{n}"' for n in names)
    return "\n".join([*lines, f'{layer.rstrip(" }")}  name: "layer"  bottom: [{bottoms}] }}', more])


def round_trip(text: str):
    model = model_from_text(text)
    weights = {name: np.asarray(array) for name, array in model.weights.items()} if model.net.nodes else {}
    message = export_net(model.net, weights)
    again = read_message(format_message(message), "NetParameter")  # as a text of Caffe
    return model, translate_net(again, "TRAIN", {})


@pytest.mark.parametrize("name", LAYERS)
def test_a_loss_comes_back_as_it_was(name):
    model, caffe = round_trip(net_text(*LAYERS[name]))
    before, after = model.net.nodes[-1].layer, caffe.net.nodes[-1].layer
    known = ("name", "min_probability")
    assert type(after) is type(before)
    for field in set(type(before).specs()) - set(known):
        assert getattr(after, field) == getattr(before, field), field
    assert not any(caffe.layers[-1].loss_weights)


def test_a_share_of_the_loss_is_a_layer_with_a_loss_weight():
    _, caffe = round_trip(net_text("a b", "EuclideanLoss { }", "AddLoss { weight: 3 }  Sqrt { }"))
    assert [layer.loss_weights for layer in caffe.layers[2:4]] == [(0.0,), (3.0,)]
    assert caffe.layers[3].bottoms == caffe.layers[2].tops


@pytest.mark.parametrize("kind", ["StreamLSTM", "StreamRNN"])
@pytest.mark.parametrize("static", ["", " v"])
def test_a_recurrent_layer_comes_back_with_its_weights(kind, static):
    model, caffe = round_trip(net_text(f"s c{static}", f"{kind} {{ units: 2  stateful: true }}"))
    layer = caffe.net.nodes[-1].layer
    assert (type(layer).__name__, layer.units, layer.stateful, layer.expose_state) == (kind, 2, True, False)
    assert len(caffe.params) == 3 + bool(static) + 2 * (kind == "StreamRNN")
    message = export_net(model.net, {n: np.asarray(a) for n, a in model.weights.items()})
    for param, blob in zip(caffe.params, message["layer"][-1]["blobs"], strict=True):
        assert tuple(blob["shape"]["dim"]) == param.shape


@pytest.mark.parametrize(("inputs", "layer", "expected"), [
    ("s c", "StreamLSTM { units: 2 }", "stateful: true"),
    ("a b l", "ContrastivePairLoss { }", "gradient_epsilon"),
    ("a l", "MultinomialLogisticLoss { min_probability: 0.1 }", "smallest probability"),
    ("z l", "InfogainLoss { matrix: [1, 0, 0, 1] }", "matrix"),
])  # fmt: skip
def test_what_caffe_does_otherwise_is_refused(inputs, layer, expected):
    with pytest.raises(TextError, match=expected):
        round_trip(net_text(inputs, layer))
