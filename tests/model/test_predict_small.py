"""A prediction of few samples is one step without a loader, and gives, warns and refuses what the loader's does."""

from __future__ import annotations

import subprocess
import sys

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.data import loader
from prototorch.errors import DataError

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


def two_outputs():
    a, b = pt.Input((3,), name="a"), pt.Input((3,), name="b")
    heads = [pt.layers.Dense(2, name="p")(a), pt.layers.Dense(1, name="q")(pt.layers.Add()([a, b]))]
    return pt.Model([a, b], heads)


CASES = {
    "array": (lambda: pt.Sequential([pt.Input((3,)), pt.layers.Dense(4)]), X),
    "several inputs and outputs": (two_outputs, {"a": X, "b": 2 * X}),
    "preprocess": (lambda: pt.load_model("lenet"), np.arange(3 * 784).reshape(3, 1, 28, 28).astype(np.uint8)),
    "open sizes": (lambda: pt.Sequential([pt.Input((None, 3)), pt.layers.LSTM(4)]), np.ones((2, 5, 3), np.float32)),
}


@pytest.fixture
def without_loader(monkeypatch):
    def refuse(self, *args, **options):
        raise AssertionError("a loader was made")

    monkeypatch.setattr(loader.Loader, "__init__", refuse)


@pytest.mark.parametrize("case", CASES)
def test_no_loader_is_made_and_the_outputs_are_those_of_a_batch(case, without_loader):
    make, x = CASES[case]
    model = make()
    found, expected = model.predict(x), model.predict_on_batch(x)
    for name in expected if isinstance(expected, dict) else [...]:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("case", CASES)
def test_the_outputs_are_those_of_the_loader(case):
    make, x = CASES[case]
    model = make()
    small = model.predict(x)
    whole = model.predict(x, callbacks=[pt.callbacks.LambdaCallback()])  # a callback sees the batches of a loader
    for name in whole if isinstance(whole, dict) else [...]:
        np.testing.assert_array_equal(small[name], whole[name])


def test_many_samples_callbacks_and_steps_use_the_loader(without_loader):
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(4)])
    for options in ({"callbacks": [pt.callbacks.LambdaCallback()]}, {"steps": 1}, {"batch_size": 5}):
        with pytest.raises(AssertionError, match="a loader was made"):
            model.predict(X, **options)


def test_outputs_are_copies():
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(4)])
    first = model.predict(X)
    kept = first.copy()
    model.predict(-X)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("count", [1, 12, 40])
def test_values_are_checked_and_warned_of_alike(count):
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(4, name="out")])
    x = np.random.default_rng(1).normal(size=(count, 3)).astype(np.float32)
    model.predict(x)
    wrong = x.copy()
    wrong[0, 1] = np.nan
    with pytest.raises(DataError, match="row 0"):
        model.predict(wrong)
    with pytest.raises(DataError, match=r"has shape \[3\], the column"):
        model.predict(x[:, :2])
    model.weights["out/bias"] = np.array([0, np.nan, 0, 0], np.float32)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"the output 'out' is NaN for .*out/bias"):
            model.predict(x)


@pytest.mark.parametrize("count", [1, 40])
def test_inputs_outside_of_the_range_of_the_training_are_warned_of(count):
    model = pt.Sequential([pt.Input((1, 4, 4), name="image"), pt.layers.Flatten(), pt.layers.Dense(1)])
    model.compile("sgd", "mse")
    rng = np.random.default_rng(0)
    model.fit(rng.random((30, 1, 4, 4), np.float32), rng.random((30, 1)), verbose=0)
    model.predict(rng.random((count, 1, 4, 4), np.float32))  # such batches are bound
    with pytest.warns(UserWarning, match="image"):
        model.predict((255 * rng.random((count, 1, 4, 4))).astype(np.float32))


def test_data_alone_reads_hdf5(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x"], file["y"] = np.zeros((8, 3), np.float32), np.arange(8)
    program = "from prototorch.data import Data\nprint(Data(source='d.h5').open())"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "8 samples" in done.stdout


def test_single_steps_warn_of_another_range_after_the_first_batch_too():
    model = pt.Sequential([pt.Input((1, 4, 4), name="image"), pt.layers.Flatten(), pt.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).random((30, 1, 4, 4), np.float32)
    model.fit(x, x[:, 0, 0, :1], verbose=0)
    model.predict_on_batch(x)
    with pytest.warns(UserWarning, match="image"):
        model.predict_on_batch(255 * x)
