"""Losses, accuracy and recurrent layers written as Caffe's, and read back as the same layers of ours."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.errors import TextError
from prototorch.interop.caffe.export.net_export import export_net
from prototorch.interop.caffe.translate import translate_net
from prototorch.load import model_from_text
from prototorch.text.caffe.reader import read_message
from prototorch.text.caffe.writer import format_message

CLASSES = 'input { name: "x"  shape: [3, 2] }\ninput { name: "t"  shape: [2] }\n'
MATRIX = CLASSES + 'input { name: "h"  shape: [9] }\n'
PAIRS = 'input { name: "x"  shape: [6] }\ninput { name: "y"  shape: [6] }\ninput { name: "t"  shape: [1] }\n'
STREAM = 'input { name: "x"  shape: [3, 4] }\ninput { name: "c"  shape: [3] }\ninput { name: "s"  shape: [5] }\n'
LAYERS = {
    "softmax": CLASSES + 'SoftmaxCrossentropyLoss { ignore_class: 255  normalization: "full"  bottom: ["x", "t"] }',
    "sigmoid": PAIRS + 'SigmoidCrossentropyLoss { ignore_class: -1  normalization: "valid"  bottom: ["x", "y"] }',
    "sigmoid mean": PAIRS + 'SigmoidCrossentropyLoss { bottom: ["x", "y"] }',
    "euclidean": PAIRS + 'EuclideanLoss { bottom: ["x", "y"] }',
    "hinge": PAIRS + 'HingeLoss { norm: "l2"  bottom: ["x", "t"] }',
    "multinomial": PAIRS + 'MultinomialLogisticLoss { min_probability: 1e-20  bottom: ["x", "t"] }',
    "contrastive": PAIRS + 'ContrastivePairLoss { margin: 2  gradient_epsilon: 1e-4  bottom: ["x", "y", "t"] }',
    "legacy": PAIRS + 'ContrastivePairLoss { legacy_version: true  bottom: ["x", "y", "t"] }',
    "accuracy": CLASSES + 'ClassAccuracy { name: "a"  top_k: 2  per_class: true  bottom: ["x", "t"] }  output: ["a", "a:1"]',
}  # fmt: skip
LAYERS["softmax axis"] = CLASSES.replace("[2]", "[3]") + 'SoftmaxCrossentropyLoss { axis: 2  bottom: ["x", "t"] }'


def round_trip(text: str):
    model = model_from_text(text)
    weights = {name: np.asarray(array) for name, array in model.weights.items()} if model.net.nodes else {}
    message = export_net(model.net, weights)
    again = read_message(format_message(message), "NetParameter")  # as a text of Caffe
    return model, translate_net(again, "TRAIN", {})


@pytest.mark.parametrize("name", LAYERS)
def test_a_loss_comes_back_as_it_was(name):
    model, caffe = round_trip(LAYERS[name])
    before, after = model.net.nodes[-1].layer, caffe.net.nodes[-1].layer
    known = ("name", "min_probability")
    assert type(after) is type(before)
    for field in set(type(before).specs()) - set(known):
        assert getattr(after, field) == getattr(before, field), field
    assert not any(caffe.layers[-1].loss_weights)


def test_a_share_of_the_loss_is_a_layer_with_a_loss_weight():
    text = PAIRS + 'EuclideanLoss { name: "l"  bottom: ["x", "y"] }  AddLoss { weight: 3 }  Sqrt { }'
    _, caffe = round_trip(text)
    assert [layer.loss_weights for layer in caffe.layers[3:5]] == [(0.0,), (3.0,)]
    assert caffe.layers[5].bottoms == caffe.layers[3].tops


@pytest.mark.parametrize("kind", ["StreamLSTM", "StreamRNN"])
@pytest.mark.parametrize("static", ["", ', "s"'])
def test_a_recurrent_layer_comes_back_with_its_weights(kind, static):
    text = STREAM + f'{kind} {{ units: 2  stateful: true  bottom: ["x", "c"{static}] }}'
    model, caffe = round_trip(text)
    layer = caffe.net.nodes[-1].layer
    assert (type(layer).__name__, layer.units, layer.stateful, layer.expose_state) == (kind, 2, True, False)
    assert len(caffe.params) == 3 + bool(static) + 2 * (kind == "StreamRNN")
    message = export_net(model.net, {n: np.asarray(a) for n, a in model.weights.items()})
    for param, blob in zip(caffe.params, message["layer"][-1]["blobs"], strict=True):
        assert tuple(blob["shape"]["dim"]) == param.shape


@pytest.mark.parametrize(("text", "expected"), [
    (STREAM + 'StreamLSTM { units: 2  bottom: ["x", "c"] }', "stateful: true"),
    (PAIRS + 'ContrastivePairLoss { bottom: ["x", "y", "t"] }', "gradient_epsilon"),
    (PAIRS + 'MultinomialLogisticLoss { min_probability: 0.1  bottom: ["x", "t"] }', "smallest probability"),
    (PAIRS + 'InfogainLoss { matrix: [1, 0, 0, 1]  bottom: ["y", "t"] }'.replace("y", "z"), "matrix"),
])  # fmt: skip
def test_what_caffe_does_otherwise_is_refused(text, expected):
    text = text.replace(
        'input { name: "y"  shape: [6] }', 'input { name: "y"  shape: [6] }\ninput { name: "z"  shape: [2] }'
    )
    with pytest.raises(TextError, match=expected):
        round_trip(text)
