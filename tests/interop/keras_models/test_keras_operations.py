"""Operators and functions of keras.ops in functional models, imported and compared with Keras."""

from __future__ import annotations

import keras
import pytest
from keras import ops

from prototorch.errors import ModelFileError
from tests.interop.keras_models.imported import check_equal, load

pytestmark = pytest.mark.filterwarnings("ignore")  # of Keras and PyTorch
FUNCTIONS = {
    "last step": lambda x: x[:, -1],
    "slices": lambda x: x[:, 1:4:2, -3:],
    "an index behind a slice": lambda x: x[:, 1:, 0],
    "a new axis": lambda x: x[..., None],
    "an index and a new axis": lambda x: x[:, None, 2],
    "negative": lambda x: -x,
    "absolute": ops.abs,
    "square": ops.square,
    "root": lambda x: ops.sqrt(ops.abs(x)),
    "rsqrt": lambda x: ops.rsqrt(ops.abs(x) + 1),
    "logarithm": lambda x: ops.log(ops.abs(x) + 1),
    "floor, ceil and sign": lambda x: ops.floor(x) + ops.ceil(x) + ops.sign(x),
    "sine and cosine": lambda x: ops.sin(x) * ops.cos(x),
    "erf": ops.erf,
    "power": lambda x: x**2 + ops.power(ops.abs(x), 0.5),
    "power of two values": lambda x: ops.power(ops.abs(x) + 1, x),
    "clip": lambda x: ops.clip(x, -0.5, 0.5),
    "bounds": lambda x: ops.maximum(x, 0.25) + ops.minimum(0.5, x),
    "quotients": lambda x: 1 / (ops.abs(x) + 1) + 3 / (ops.abs(x) + 2) + x / (ops.abs(x) + 1),
    "sum": lambda x: ops.sum(x, axis=1),
    "mean": lambda x: ops.mean(x, axis=(1, 2), keepdims=True),
    "maximum": lambda x: ops.max(x, axis=-1),
    "minimum": lambda x: ops.min(x, axis=-2),
    "product": lambda x: ops.prod(x, axis=1),
    "logsumexp": lambda x: ops.logsumexp(x, axis=2),
    "argmax": lambda x: ops.argmax(x, axis=1),
    "reshape": lambda x: ops.reshape(x, (-1, 4, 5)),
    "squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 1), 1),
    "product of matrices": lambda x: ops.matmul(x, ops.transpose(x, (0, 2, 1))),
    "stack": lambda x: ops.stack([x, -x], axis=1),
    "choice": lambda x: ops.where(x > -x, x, ops.abs(x)),
    "comparisons with numbers": lambda x: ops.where(x > 0.5, x, 0.0) + ops.where(ops.less(0.25, x), 1.0, 2.0),
    "comparisons with 0": lambda x: ops.cast(x >= 0, "float32") + 2 * ops.cast(x <= 0, "float32"),
    "equality with a number": lambda x: ops.cast(ops.equal(ops.round(x), 1), "float32"),
    "inequality": lambda x: ops.cast(ops.not_equal(ops.floor(x), 0), "float32") + ops.cast(x != x * x, "float32"),
    "both": lambda x: ops.cast(ops.logical_and(x > 0, x < 1), "float32"),
    "a choice of numbers": lambda x: ops.where(x > 0, 1.5, ops.where(x > -1, x, 2)),
    "a choice of integers": lambda x: ops.cast(ops.where(x > 0, 1, 2), "float32") * x,
    "remainders": lambda x: ops.mod(x, 0.75) + ops.mod(3.0, ops.abs(x) + 1) + x % 2,
    "whole quotients": lambda x: x // 0.5 + ops.floor_divide(3.0, ops.abs(x) + 1),
    "a number to a power": lambda x: ops.power(2.0, x) + 3**x,
    "elu": lambda x: ops.elu(x) + ops.elu(x, alpha=0.5),
    "leaky_relu": lambda x: ops.leaky_relu(x) + ops.leaky_relu(x, 0.3),
    "gelu": lambda x: ops.gelu(x) - 2 * ops.gelu(x, approximate=False),
    "celu": lambda x: ops.celu(x, 0.7) + ops.celu(x),
    "tangent": ops.tan,
    "log1p and expm1": lambda x: ops.log1p(ops.abs(x)) + ops.expm1(0.01 * x),
    "glu": lambda x: ops.glu(x, axis=1) if x.shape[1] % 2 == 0 else ops.glu(x),
    "squareplus": lambda x: ops.squareplus(x) - ops.squareplus(x, 1),
    "sparse_plus and sparse_sigmoid": lambda x: ops.sparse_plus(x) - ops.sparse_sigmoid(x),
    "shrinking": lambda x: ops.soft_shrink(x, 0.3) + ops.hard_shrink(x, 0.2) + ops.tanh_shrink(x),
    "hard_tanh and threshold": lambda x: ops.hard_tanh(2 * x) + ops.threshold(x, 0.1, 0.3),
}


@pytest.mark.parametrize("function", [lambda i: i > 1.5, lambda i: i % 2.5, lambda i: ops.where(i > 1, i, 0.5)])
def test_a_fraction_beside_integers(tmp_path, function):
    i = keras.Input((6,), dtype="int32")
    y = ops.cast(function(i), "float32")
    check_equal(keras.Model(i, y), tmp_path / "model.keras")


FLATTEN = keras.layers.Flatten(data_format="channels_first")
FLATTENED = {
    "images": ((6, 5, 3), [keras.layers.Conv2D(4, 3), FLATTEN, keras.layers.Dense(2)]),
    "images alone": ((6, 5, 3), [FLATTEN]),
    "a sequence": ((6, 3), [keras.layers.Conv1D(4, 3), FLATTEN, keras.layers.Dense(2)]),
    "volumes": ((4, 5, 6, 2), [keras.layers.Conv3D(3, 3), FLATTEN, keras.layers.Dense(2)]),
    "vectors": ((6,), [keras.layers.Dense(4), FLATTEN]),
    "images in a sequence": (
        (2, 5, 4, 3),
        [
            keras.layers.TimeDistributed(keras.layers.Conv2D(2, 2)),
            keras.layers.TimeDistributed(keras.layers.Flatten(data_format="channels_first")),
            keras.layers.LSTM(3),
        ],
    ),
}


@pytest.mark.parametrize("name", FLATTENED)
def test_flatten_that_takes_the_second_axis_for_the_channels(tmp_path, name):
    """On a net with its channels last: Keras moves axis 1 behind the others."""
    shape, chain = FLATTENED[name]
    x = y = keras.Input(shape)
    for layer in chain:
        y = type(layer).from_config(layer.get_config())(y)
    check_equal(keras.Model(x, y), tmp_path / "model.keras")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_sequence(tmp_path, name):
    x = keras.Input((5, 4))
    y = FUNCTIONS[name](keras.layers.Dense(4)(x))
    check_equal(keras.Model(x, y), tmp_path / "model.keras")


@pytest.mark.parametrize("name", ["mean", "last step", "slices", "maximum", "stack", "a new axis"])
def test_a_function_of_images(tmp_path, name):
    x = keras.Input((6, 5, 3))
    y = FUNCTIONS[name](keras.layers.Conv2D(4, 3, padding="same")(x))
    check_equal(keras.Model(x, keras.layers.Dense(2)(keras.layers.Flatten()(y))), tmp_path / "model.keras")


def test_a_function_without_an_importer_is_refused_by_its_name(tmp_path):
    x = keras.Input((4,))
    keras.Model(x, ops.arctanh(x)).save(tmp_path / "model.keras")
    with pytest.raises(
        ModelFileError, match=r"arctanh.*\(Arctanh: a function of keras.ops that no importer here knows"
    ):
        load(tmp_path / "model.keras")


@pytest.mark.parametrize("function", [lambda x: x[0], ops.sum, lambda x: ops.flip(x, 0)])
def test_what_mixes_samples_is_refused(tmp_path, function):
    x = keras.Input((4,))
    keras.Model(x, function(x)).save(tmp_path / "model.keras")
    with pytest.raises(ModelFileError, match=r"batch|no importer"):
        load(tmp_path / "model.keras")
