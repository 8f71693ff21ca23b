"""A new layer with an op and a derivative of its own is one file: it is checked, named in a text, and trained."""

import importlib.util
import sys

import numpy as np
import pytest

import prototorch as pt
from prototorch import tensor
from prototorch.eager.layer_call import weights_of
from prototorch.engine.harness import CHECKS, check_layer, temporary_definitions
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.layers import Dense

SOURCE = '''
"""Swish with a trained factor."""

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.ops.core import Op
from prototorch.schema import example, field


class SoftStep(Op):
    """1 / (1 + exp(-x))."""

    inplace = {0: 0}
    derivatives = (lambda g, y, x: g * y * (1 - y),)

    def infer_spec(self, x):
        return x

    def reference(self, xp, x):
        return 1 / (1 + xp.exp(-x))


soft_step = SoftStep()


class TrainedSwish(Layer):
    """x * sigmoid(beta * x), one beta for each feature."""

    beta_initializer: Initializer = field(default="ones", doc="Initializer of beta.")
    examples = [example("TrainedSwish { }", inputs=[(4,)])]

    def call(self, ctx, x):
        return x * soft_step(x * ctx.weight("beta", (x.shape[-1],), self.beta_initializer))
'''.replace(
    "from prototorch.layers.base", "from prototorch.initializers.base import Initializer\nfrom prototorch.layers.base"
)


@pytest.fixture
def trained_swish(tmp_path):
    """The class, from a temporary file; afterwards nothing of it is left."""
    path = tmp_path / "trained_swish.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("trained_swish", path)
    module = importlib.util.module_from_spec(spec)
    with temporary_definitions():
        sys.modules["trained_swish"] = module
        spec.loader.exec_module(module)
        yield module.TrainedSwish
        del sys.modules["trained_swish"]


def test_its_tests_appear_by_themselves(trained_swish):
    assert check_layer(trained_swish) == len(CHECKS)


def test_its_name_is_known_in_a_text(trained_swish):
    assert parse_layer("trained_swish { }") == trained_swish()


TEXT = """
name: "one_file"
input { name: "x"  shape: [4] }
Dense { units: 4 }
TrainedSwish { name: "swish" }
Dense { units: 1 }
compile { loss: mse  optimizer: SGD { learning_rate: 0.1 } }
"""


def test_a_text_with_it_trains_and_is_saved(trained_swish, tmp_path):
    path = tmp_path / "one_file.proto"
    path.write_text(TEXT)
    x = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
    y = np.tanh(x[:, :1] * 2)
    model = pt.load_model(path)
    losses = model.fit(x, y, epochs=30, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert not np.allclose(model.variables["swish/beta"], 1.0)
    model.save(tmp_path / "one_file.h5")
    assert np.array_equal(pt.load_model(tmp_path / "one_file.h5").predict(x), model.predict(x))


def test_it_trains_eagerly(trained_swish):
    rng = np.random.default_rng(0)
    x = tensor(rng.standard_normal((64, 4)).astype("float32"))
    target = tensor(np.tanh(x.numpy()[:, :1] * 2))
    hidden, swish, out = Dense(4, kernel_initializer="he_normal"), trained_swish(), Dense(1)
    losses = []
    for _ in range(60):
        error = out(swish(hidden(x))) - target
        loss = (error * error).mean()
        loss.backward()
        losses.append(loss.item())
        for layer in (hidden, swish, out):
            for weight in weights_of(layer).values():
                weight.data -= 0.1 * weight.grad.data
                weight.grad = None
    assert losses[-1] < 0.25 * losses[0]
    assert not np.allclose(weights_of(swish)["beta"].numpy(), 1.0)
