"""Every layer, from its own examples, in files that we write for Keras: Keras loads them and gives equal outputs, and
what Keras saves of it then is loaded here and gives the same again."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import UsageError
from prototorch.interop.counterparts.keras.row import keras_row, keras_rows
from prototorch.interop.keras.layouts import LAYOUTS
from prototorch.interop.writers import ModelToWrite, write_model
from prototorch.layers.base import Layer
from tests.interop.keras_nets import WRITERS, keras, predict, quiet, randomize, write

SHIPPED = {n: c for n, c in Layer.members().items() if c.__module__.startswith(layers.__name__)}
EXAMPLES = [pytest.param(e, id=f"{n}-{k}") for n, c in SHIPPED.items() for k, e in enumerate(c.examples)]
TOLERANCE = 1e-4

#: layer classes -> words of the reason why Keras cannot have them, or not with the settings of some examples
NOT_EXPRESSIBLE = {
    "RMSNormalization": "one axis",
    "TextVectorization": "needs TensorFlow",
    "IntegerLookup": "needs TensorFlow",
    "TokenizerFile": "reads tokenizer files",
    "AveragePooling2D": "does not count in the mean",
    "CELU": "other settings",
    "CenterCrop": "offset_rounding",
    "ColorChannels": "color channels",
    "Conv2DTranspose": "groups",
    "Conv2D": "strides together with a dilation_rate",
    "GaussianNoise": "stddev of at most 1",
    "GELU": "approximate",
    "GRU": "no function of Keras",
    "LRN": "local response normalization",
    "LSTM": "no function of Keras",
    "LogSoftmax": "other settings",
    "Divide": "keras.ops.divide",
    "ThresholdedReLU": "Keras 2 had",
    "MaxPooling2D": "behind a ReLU alone",
    "PositionEmbedding": "no position embedding",
    "ClassToken": "no class token",
    "RandomCrop": "does not crop outside training",
    "ReLU": "no negative_slope below 0",
    "Rescaling": "no scale here is negative",
    "Resizing": "keep_aspect_ratio",
    "SinePositionEncoding": "no position encoding",
    "RotaryEmbedding": "no rotary embedding",
    "RNN": "cells are not written",
    "Bidirectional": "cells are not written",
    **dict.fromkeys(("SimpleRNNCell", "LSTMCell", "GRUCell", "StackedRNNCells"), "a cell alone"),
}
#: what Keras computes in another way on PyTorch than on its other back ends, which compute as we do
PEER_DIFFERS = ("padding: same", "interpolation: bicubic")


def model_of(example, seed=0):
    """A model of this one layer with random weights, and inputs for it."""
    rng = np.random.default_rng(seed)
    dtypes = [example.dtype] * len(example.inputs) if isinstance(example.dtype, str) else example.dtype
    symbols = [pt.Input(shape, dtype=dtype) for shape, dtype in zip(example.inputs, dtypes, strict=True)]
    model = pt.Model(symbols, parse_layer(example.text)(*symbols))
    set_random(model, rng)
    bounds = example.extra.get("range", (0, 2))
    ranges = bounds if isinstance(bounds[0], tuple) else [bounds] * len(dtypes)
    inputs = [
        rng.standard_normal((2, *shape)).astype(dtype)
        if "float" in dtype
        else rng.integers(low, high, (2, *shape)).astype(dtype)
        for shape, dtype, (low, high) in zip(example.inputs, dtypes, ranges, strict=True)
    ]
    return model, inputs


def set_random(model, rng):
    """Random weights; variances are positive."""
    arrays = {name: rng.normal(0, 0.5, array.shape) for name, array in model.weights.items()}
    model.set_weights({n: np.abs(a) + 0.5 if "variance" in n else a for n, a in arrays.items()})


def to_write(model):
    return ModelToWrite(model.net, {name: np.asarray(array) for name, array in model.weights.items()})


def outputs(model, inputs):
    found = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    return list(found.values()) if isinstance(found, dict) else [found]


@quiet
def load(path):
    return keras.models.load_model(path, compile=False)


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_layer_in_keras_and_back(tmp_path, example):
    model, inputs = model_of(example)
    kind = example.text.split()[0]
    try:
        write_model(tmp_path / "net.keras", to_write(model))
    except UsageError as error:
        row = keras_row(type(model.net.nodes[0].layer))
        reasons = [NOT_EXPRESSIBLE.get(kind), f"Keras has no layer {kind}"]
        if row is not None and not row.reason:
            reasons.pop()
        if row is not None and row.other_settings:
            reasons.append(row.other_settings)
        if settings := model.net.nodes[0].layer.own_settings():
            reasons.append(f"Keras' {kind} has no {', '.join(settings)}")
        assert any(reason in str(error) for reason in reasons if reason)  # noqa: PT017
        return
    expected = outputs(model, inputs)
    peer = load(tmp_path / "net.keras")
    if not (
        ("Pooling" in kind or "Sampling" in kind or "Resizing" in kind) and any(t in example.text for t in PEER_DIFFERS)
    ):
        assert_equal(expected, predict(peer, *inputs))
    if not model.weights:
        return
    write_model(tmp_path / "legacy.h5", to_write(model), "keras-h5")
    assert_equal(predict(peer, *inputs), predict(load(tmp_path / "legacy.h5"), *inputs))
    randomize(peer, 1)
    expected = predict(peer, *inputs)
    is_ambiguous = kind == "PReLU" and "shared_axes" in example.text  # nothing tells that it is channels-first
    number = type(model.net.nodes[0].layer).examples.index(example)
    for how in [] if is_ambiguous else [list(WRITERS)[number % len(WRITERS)]]:
        set_random(model, np.random.default_rng(2))
        model.load_weights(write(peer, how, tmp_path))
        assert_equal(outputs(model, inputs), expected)


def test_the_rows_name_what_keras_has():
    """Classes and functions that are there; where a layer has weights, their layouts are known."""
    for row in keras_rows():
        for layer in row.layers if row.has_class and not row.reason else ():
            assert hasattr(keras.layers, row.name_of(layer))
            if any(model_of(example)[0].weights for example in layer.examples):
                assert LAYOUTS.knows(layer), layer
        for name in (row.function, *row.function_aliases) if row.function else ():
            assert hasattr(keras.activations, name), name


def test_initializers_that_keras_does_not_have_become_its_default(tmp_path):
    """They change no weight of the file; the layer can be read."""
    model = pt.Sequential([
        pt.Input((6, 5, 5)),
        layers.Conv2D(2, 3, kernel_initializer=pt.initializers.Bilinear()),
        layers.Flatten(),
        layers.Dense(3, kernel_initializer=pt.initializers.PositiveUnitBall(axis=1),
                     bias_initializer=pt.initializers.SparseNormal()),
    ])  # fmt: skip
    write_model(tmp_path / "net.keras", to_write(model))
    x = np.random.default_rng(0).normal(size=(2, 6, 5, 5)).astype(np.float32)
    assert_equal(outputs(model, [x]), predict(load(tmp_path / "net.keras"), x))
