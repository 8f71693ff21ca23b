"""``share``: single weights of a layer that are those of another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import ModelError
from prototorch.model.load import model_from_text

NET = """
name: "shared"
input {{ name: "x" shape: [3] }}
Dense {{ name: "a" units: {0} }}
Dense {{ name: "b" units: {1} {2} }}
"""


def make_model(units: tuple[int, int], share: str) -> pt.Model:
    return model_from_text(NET.format(*units, share))


def test_one_weight_is_shared() -> None:
    model = make_model((3, 3), 'share { weight: "kernel"  source: "a/kernel" }')
    weights = model.weights
    assert sorted(weights) == ["a/bias", "a/kernel", "b/bias"]
    x = np.ones((2, 3), np.float32)
    kernel = weights["a/kernel"]
    np.testing.assert_allclose(model.predict(x), x @ kernel @ kernel, rtol=1e-5, atol=1e-6)


def test_a_shared_weight_gets_the_gradients_of_both() -> None:
    model = make_model((3, 3), 'use_bias: false  share { weight: "kernel"  source: "a/kernel" }')
    model.compile(optimizer=pt.optimizers.SGD(learning_rate=0.1), loss="mse")
    x, y = np.ones((4, 3), np.float32), np.zeros((4, 3), np.float32)
    kernel = model.weights["a/kernel"].copy()
    model.train_on_batch(x, y)
    out = x @ kernel @ kernel
    g = 2 * out / out.size
    gradient = (x @ kernel).T @ g + x.T @ (g @ kernel.T)
    np.testing.assert_allclose(model.weights["a/kernel"], kernel - 0.1 * gradient, rtol=1e-4, atol=1e-6)


def test_a_weight_is_reshaped() -> None:
    model = make_model((2, 1), 'use_bias: false  share { weight: "kernel"  source: "a/bias"  reshape: true }')
    model.weights["a/bias"][...] = [1, 2]
    x = np.ones((2, 3), np.float32)
    hidden = x @ model.weights["a/kernel"] + [1, 2]
    np.testing.assert_allclose(model.predict(x), hidden @ [[1], [2]], rtol=1e-5)


@pytest.mark.parametrize(
    ("units", "share", "message"),
    [
        ((3, 3), 'share { weight: "kernel"  source: "a/kernl" }', "no layer before it has a weight 'a/kernl'"),
        ((3, 3), 'share { weight: "kern"  source: "a/kernel" }', "has no weight 'kern'; its weights are bias, kernel"),
        ((2, 4), 'share { weight: "kernel"  source: "a/kernel" }', r"\[2, 4\], but 'a/kernel' has the shape \[3, 2\]"),
        ((2, 4), 'share { weight: "kernel"  source: "a/kernel" reshape: true }', r"\[2, 4\], but 'a/kernel'"),
    ],
)
def test_mistakes(units: tuple[int, int], share: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make_model(units, share).predict(np.ones((1, 3), np.float32))


def test_it_is_written_and_read_again() -> None:
    model = make_model((3, 3), 'share { weight: "kernel"  source: "a/kernel" }')
    again = model_from_text(model.to_text())
    x = np.ones((2, 3), np.float32)
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize("file", ["m.keras", "m.pt", "m.weights.h5", "m.py"])
def test_systems_that_cannot_hold_it_are_told(tmp_path: Path, file: str) -> None:
    path = tmp_path / "m.proto"
    path.write_text(NET.format(3, 3, 'share { weight: "kernel"  source: "a/kernel" }'))
    result = CliRunner().invoke(group, ["convert", str(path), "-o", str(tmp_path / file)])
    assert result.exit_code != 0
    assert "share" in str(result.exception)
    assert not (tmp_path / file).exists()
