"""Normalising layers against Keras and PyTorch."""

import keras
import numpy as np
import pytest
import torch

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.graph.ir import Graph
from prototorch.spec import Spec
from tests.layers.compare import SINGLE, beside_keras, beside_torch, numbers, text_of


def statistics(n, scale=True, center=True):
    given = {"moving_mean": numbers(n, seed=2), "moving_variance": numbers(n, seed=3, low=0.5, high=2)}
    if scale:
        given["gamma"] = numbers(n, seed=4)
    if center:
        given["beta"] = numbers(n, seed=5)
    return given


BATCH = [
    ((3,), {}, {}),
    ((3, 4, 2), {"epsilon": 1e-5}, {}),
    ((4, 3), {"axis": -1}, {}),
    ((2, 3), {"scale": False}, {"scale": False}),
    ((2, 3), {"axis": 1}, {}),
    ((2, 2, 2, 2), {"center": False, "momentum": 0.5}, {"center": False}),
]


@pytest.mark.parametrize(("shape", "options", "parts"), BATCH, ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_batch_normalization_is_keras(shape, options, parts, training):
    keras_axis = {"axis": 1} if len(shape) > 2 else {}  # Keras' own default for tables and sequences
    axis = options.get("axis", keras_axis.get("axis", -1))
    x = numbers(5, *shape) * 2 + 1
    weights = statistics(x.shape[axis], **parts)
    layer = keras.layers.BatchNormalization(**keras_axis | options)
    beside_keras(
        layer, text_of("BatchNormalization", options), [x], training=training, weights=weights, tolerance=SINGLE
    )
    if training:
        assert_moved(text_of("BatchNormalization", options), x, weights, layer)


def assert_moved(text, x, weights, layer):
    """After a step the moving mean and variance are Keras'. `layer` has made its step."""
    said = trace_layer(Graph(), parse_layer(text), [Spec(x.shape, "float64")], True, "float64")
    program = CompiledLayer(
        said, named_outputs(said), cpu(), {f"layer/{n}": w for n, w in weights.items()}, update=True
    )
    program([x])
    for name in ("moving_mean", "moving_variance"):
        theirs = getattr(layer, name).value.detach().numpy()
        assert not np.array_equal(theirs, weights[name])
        np.testing.assert_allclose(program.states[f"layer/{name}"], theirs, rtol=SINGLE)


def test_a_frozen_batch_normalization_uses_the_moving_statistics():
    """As in Keras: `trainable: false` is inference, in training as well."""
    x, weights = numbers(5, 2, 3), statistics(3)
    layer = keras.layers.BatchNormalization(trainable=False)
    said = trace_layer(
        Graph(), parse_layer("BatchNormalization { trainable: false }"), [Spec(x.shape, "float64")], True, "float64"
    )
    assert not said.trace.updates
    made = CompiledLayer(said, named_outputs(said), cpu(), {f"layer/{n}": w for n, w in weights.items()})([x])["y0"]
    layer.build(x.shape)
    for v in layer.weights:
        v.assign(weights[v.name])
    np.testing.assert_allclose(made, layer(torch.tensor(x), training=True).detach().numpy(), rtol=SINGLE, atol=SINGLE)


LAYER = [((4,), {}), ((3, 4), {}), ((3, 4), {"axis": [1, 2]}), ((3, 4), {"axis": -1, "epsilon": 1e-5}),
         ((2, 3), {"center": False}), ((2, 3), {"scale": False})]  # fmt: skip


@pytest.mark.parametrize(("shape", "options"), LAYER, ids=str)
def test_layer_normalization_is_keras(shape, options):
    text = text_of("LayerNormalization", options)
    beside_keras(keras.layers.LayerNormalization(**options), text, [numbers(3, *shape) * 2 + 1], tolerance=SINGLE)


GROUP = [((3, 4), {"groups": 2}), ((4, 3, 2), {"groups": -1}), ((4, 3), {"groups": 1, "epsilon": 1e-5}),
         ((6, 3), {"groups": 3, "axis": 1}), ((2, 4), {"groups": 2, "scale": False, "center": False})]  # fmt: skip


@pytest.mark.parametrize(("shape", "options"), GROUP, ids=str)
def test_group_normalization_is_keras(shape, options):
    keras_axis = {"axis": 1} if len(shape) > 2 else {}  # Keras' own default for sequences
    layer = keras.layers.GroupNormalization(**keras_axis | options)
    beside_keras(layer, text_of("GroupNormalization", options), [numbers(3, *shape) * 2 + 1], tolerance=SINGLE)


def test_layer_normalization_over_channels():
    """Keras on PyTorch knows trailing axes only."""

    def norm(x, w):
        centred = x[0] - x[0].mean(1, keepdim=True)
        y = centred / (centred.square().mean(1, keepdim=True) + 1e-3).sqrt()
        return y * w["gamma"][:, None] + w["beta"][:, None]

    beside_torch(norm, "LayerNormalization { axis: 1 }", [numbers(3, 4, 5)])


def test_normalizations_are_pytorch():
    """In float64 throughout."""
    x = [numbers(3, 4, 5) * 2 + 1]
    F = torch.nn.functional
    beside_torch(lambda x, w: F.layer_norm(x[0], (5,), w["gamma"], w["beta"], 1e-3), "LayerNormalization { }", x)
    text = "GroupNormalization { groups: 2  data_format: channels_first }"
    beside_torch(lambda x, w: F.group_norm(x[0], 2, w["gamma"], w["beta"], 1e-3), text, x)
    for training in (False, True):

        def batch_norm(x, w, training=training):
            mean, variance = w["moving_mean"].detach().clone(), w["moving_variance"].detach().clone()
            return F.batch_norm(x[0], mean, variance, w["gamma"], w["beta"], training, 0.01, 1e-3)

        text = "BatchNormalization { data_format: channels_first }"
        beside_torch(batch_norm, text, x, training=training, weights=statistics(4))


@pytest.mark.parametrize("options", [{}, {"size": 3, "alpha": 1e-2, "beta": 0.5, "k": 2.0}, {"size": 1}])
@pytest.mark.parametrize("shape", [(7, 2, 3), (2, 4), (3, 2, 2, 2)])
def test_lrn_is_pytorch(options, shape):
    theirs = torch.nn.LocalResponseNorm(**{"size": 5, "alpha": 1.0} | options)
    beside_torch(lambda x, w: theirs(x[0]), text_of("LRN", options), [numbers(2, *shape)])
