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
}


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
    keras.Model(x, ops.expm1(x)).save(tmp_path / "model.keras")
    with pytest.raises(ModelFileError, match=r"expm1.*\(Expm1: a function of keras.ops that no importer here knows"):
        load(tmp_path / "model.keras")


@pytest.mark.parametrize("function", [lambda x: x[0], ops.sum, lambda x: ops.flip(x, 0)])
def test_what_mixes_samples_is_refused(tmp_path, function):
    x = keras.Input((4,))
    keras.Model(x, function(x)).save(tmp_path / "model.keras")
    with pytest.raises(ModelFileError, match=r"batch|no importer"):
        load(tmp_path / "model.keras")
