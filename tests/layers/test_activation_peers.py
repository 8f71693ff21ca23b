"""Activations against Keras.

The hard sigmoid is written out: PyTorch's own has 1/6 in float32.
"""

import keras
import numpy as np
import pytest
import torch

from prototorch.engine.backends.cpu import cpu, native
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.layers.compare import beside_keras, beside_torch, numbers, text_of

A = keras.activations
X = numbers(3, 4, 5) * 3
ROWS = [
    ("Linear", {}, A.linear), ("Sigmoid", {}, A.sigmoid), ("LogSigmoid", {}, A.log_sigmoid),
    ("HardSigmoid", {}, lambda x: torch.clip(x / 6 + 0.5, 0, 1)),
    ("HardSwish", {}, lambda x: x * torch.clip(x / 6 + 0.5, 0, 1)),
    ("Tanh", {}, A.tanh),
    ("Softplus", {}, A.softplus), ("Softsign", {}, A.softsign), ("Exponential", {}, A.exponential),
    ("ReLU6", {}, A.relu6), ("SELU", {}, A.selu), ("CELU", {}, A.celu),
    ("CELU", {"alpha": 0.5}, lambda x: A.celu(x, 0.5)),
    ("GELU", {}, A.gelu), ("GELU", {"approximate": True}, lambda x: A.gelu(x, approximate=True)),
    ("SiLU", {}, A.silu), ("Mish", {}, A.mish), ("LogSoftmax", {}, A.log_softmax),
    ("LogSoftmax", {"axis": 1}, lambda x: A.log_softmax(x, axis=1)),
]  # fmt: skip
LAYERS = [
    ("ReLU", {}), ("ReLU", {"max_value": 1.5}), ("ReLU", {"negative_slope": 0.1, "threshold": 0.5, "max_value": 2.0}),
    ("LeakyReLU", {}), ("LeakyReLU", {"negative_slope": 0.01}), ("ELU", {}), ("ELU", {"alpha": 0.3}),
    ("Softmax", {}), ("Softmax", {"axis": 1}), ("PReLU", {}), ("PReLU", {"shared_axes": [2]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "function"), ROWS, ids=lambda v: str(v) if not callable(v) else "")
def test_activation_is_keras(name, options, function):
    beside_torch(lambda x, w: function(x[0]), text_of(name, options), [X])


@pytest.mark.parametrize(("name", "options"), LAYERS, ids=str)
def test_activation_layer_is_keras(name, options):
    beside_keras(getattr(keras.layers, name)(**options), text_of(name, options), [X])


@pytest.mark.parametrize(
    "word",
    ["relu", "relu6", "leaky_relu", "prelu", "elu", "selu", "gelu", "silu", "swish", "mish", "softplus", "softsign",
     "sigmoid", "hard_sigmoid", "hard_swish", "tanh", "exponential", "linear", "softmax", "log_softmax"],
)  # fmt: skip
def test_every_word_is_an_activation(word):
    from prototorch.layers import Activation

    made = Activation(word)
    assert made.activation == type(made.activation).from_name(word)


@pytest.mark.parametrize(
    "name", ["Sigmoid", "Softplus", "LogSigmoid", "SiLU", "Mish", "GELU", "Tanh", "ELU", "LogSoftmax"]
)
def test_far_from_zero(name):
    """No overflow, and the limits are right, in outputs and gradients."""
    far = np.array([[-800.0, -100.0, -40.0, 40.0, 100.0, 800.0]])
    from tests.layers.peers import ours

    (y,), grads = ours(f"{name} {{ }}", [far], {})
    assert np.isfinite(y).all()
    assert np.isfinite(grads["x0"]).all()


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"threshold": 0.5, "negative_slope": 0.25}], ids=str)
def test_relu_at_its_threshold_is_keras(options):
    """What equals the threshold is not above it."""
    beside_keras(keras.layers.ReLU(**options), text_of("ReLU", options), [np.array([[0.25, 0.5, 0.75]])])


@pytest.mark.parametrize("level", ["plain", "numpy", "native"])
def test_gelu_far_below_zero_is_zero(level):
    """Where erf is 1 to the last bit, the factor is exactly 0: -1e4 times a rounding error is not."""
    if level == "native" and native.unavailable_reason() is not None:
        pytest.skip("no native kernels here")
    x = np.float32([-1e30, -1e4, -20, -6.5])
    specs = (Spec(x.shape),)
    y = np.full_like(x, np.nan)
    cpu(level).prepare(OPS["gelu"], specs, specs, {"approximate": False})([x], [y])
    assert (y == 0).all()
    cpu(level).prepare(OPS["gelu"], specs, specs, {"approximate": False})([-x], [y])
    assert (y == -x).all()
