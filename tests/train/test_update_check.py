"""No training goes on with weights that are not finite, though its loss is: gradients, updates, statistics, files."""

import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import TrainingError
from prototorch.train.state_check import INTERVAL

pytestmark = pytest.mark.filterwarnings("ignore:.*the values of the input:prototorch.data.DataWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 8)).astype(np.float32)
Y = RNG.normal(size=(8, 1)).astype(np.float32)

with temporary_definitions():  # no other test meets them

    class RootOfZero(pt.Layer):
        """The square root, whose derivative at 0 is infinite."""

        def call(self, ctx, x):
            return ops.sqrt(x)


def sequence(*layers, optimizer="sgd", loss="mse"):
    model = pt.Sequential([pt.Input((8,)), *layers])
    model.compile(optimizer, loss)
    return model


def root_net(**options):
    """The root of zeros: a finite loss with infinite gradients."""
    first = pt.layers.Dense(4, kernel_initializer="zeros", name="first")
    return sequence(first, RootOfZero(name="root"), pt.layers.Dense(1, name="out"), **options)


def overflowing_net():
    """All weights of the first layer become -inf by the first update; ReLU then gives 0, and the loss stays finite."""
    first = pt.layers.Dense(4, activation="relu", kernel_initializer="ones", name="first")
    model = sequence(
        first, pt.layers.Dense(1, kernel_initializer="ones", name="out"), optimizer=pt.optimizers.SGD(3e38)
    )
    model.set_trainable(False, "out")
    return model


POSITIVE, NEGATIVE = np.abs(X), np.full((8, 1), -1e5, np.float32)

CLIPPING = {
    "none": {},
    "norm": {"clipnorm": 1.0},
    "global_norm": {"global_clipnorm": 1.0},
    "value": {"clipvalue": 1.0},
}


@pytest.mark.parametrize("clipping", CLIPPING)
def test_a_gradient_that_is_not_finite_changes_no_weight(clipping):
    model = root_net(optimizer=pt.optimizers.Adam(1e-3, **CLIPPING[clipping]))
    before = model.get_weights()
    with pytest.raises(TrainingError) as caught:
        model.fit(X, Y, batch_size=8, epochs=1, verbose=0)
    text = str(caught.value)
    assert "the gradient of the loss is not finite at step 1 of epoch 1: the derivative of layer 'root' (" in text
    assert "it would have changed 'first/kernel', 'first/bias' to values that are not finite" in text
    assert "No weight has been changed by this step" in text
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(array, before[name])


def test_the_gradient_at_one_of_several_outputs():
    x = pt.Input((8,))
    roots = RootOfZero(name="root")(pt.layers.Dense(1, kernel_initializer="zeros", name="first")(x))
    model = pt.Model(x, [pt.layers.Dense(1, name="good")(x), roots])
    model.compile("sgd", {"good": "mse", "root": "mse"})
    with pytest.raises(TrainingError, match="the derivative of layer 'root'"):
        model.fit(X, {"good": Y, "root": Y}, batch_size=8, verbose=0)


@pytest.mark.parametrize("level", ["plain", "numpy"])
def test_the_gradient_on_other_levels(level, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    with pytest.raises(TrainingError, match="the gradient of the loss is not finite"):
        root_net().train_on_batch(X, Y)


def test_an_update_that_overflows_is_found_at_the_end_of_the_epoch():
    with pytest.raises(TrainingError) as caught:
        overflowing_net().fit(POSITIVE, NEGATIVE, batch_size=8, verbose=0)
    text = str(caught.value)
    assert text.startswith("after step 1 of epoch 1 these values are not finite: the weight 'first/kernel' (32 of 32 ")
    assert "They have become so in this step, whose losses were finite" in text
    assert "The model holds them, nothing has been rolled back: load the last checkpoint" in text


def test_an_update_that_overflows_is_found_within_the_interval():
    model = overflowing_net()
    for _ in range(INTERVAL - 1):
        assert np.isfinite(model.train_on_batch(POSITIVE, NEGATIVE)["loss"])
    with pytest.raises(TrainingError, match=rf"after step {INTERVAL} these values .* one of the last {INTERVAL} steps"):
        model.train_on_batch(POSITIVE, NEGATIVE)


@pytest.mark.filterwarnings("ignore:data. the values of the input:prototorch.data.checks.DataWarning")
def test_running_statistics_and_the_state_of_the_optimizer():
    norm = sequence(pt.layers.BatchNormalization(name="norm"), pt.layers.Dense(1, name="out"))
    with pytest.raises(TrainingError, match=r"not finite: the weight 'norm/moving_variance' \(8 of 8 elements: inf\)"):
        norm.fit(X * np.float32(1e20), Y, batch_size=8, verbose=0)
    dense = sequence(pt.layers.Dense(1, use_bias=False, name="out"), optimizer="adam")
    with pytest.raises(TrainingError, match=r"the optimizer's 'velocity' of 'out/kernel' \(8 of 8 elements: inf\)"):
        dense.fit(X * 100, Y * np.float32(1e18), batch_size=8, verbose=0)


def test_a_backend_without_the_check_of_gradients_finds_the_weights(monkeypatch):
    monkeypatch.setattr(Backend, "checks_gradients", False)
    with pytest.raises(TrainingError, match=r"after step 1 of epoch 1 these values are not finite: .*: nan"):
        root_net().fit(X, Y, batch_size=8, verbose=0)


def test_no_checkpoint_is_written_over_a_good_one(tmp_path):
    path = tmp_path / "best.h5"
    model = overflowing_net()
    model.save(path)
    good = path.read_bytes()
    keep = pt.callbacks.ModelCheckpoint(str(path), save_freq=1)
    with pytest.raises(TrainingError, match="these values are not finite"):
        model.fit(POSITIVE, NEGATIVE, batch_size=8, callbacks=[keep], verbose=0)
    assert path.read_bytes() == good
    with pytest.warns(RuntimeWarning, match=r"bad\.h5 gets values that are not finite: the weight 'first/kernel'"):
        model.save(tmp_path / "bad.h5")


def test_results_that_are_not_finite_are_reported():
    model = sequence(pt.layers.Dense(1, name="out"))
    model.weights["out/kernel"] = np.full((8, 1), np.nan)
    with pytest.warns(RuntimeWarning, match=r"the loss of the evaluation is nan: the weight 'out/kernel' \(8 of 8"):
        model.evaluate(X, Y)
    with pytest.warns(RuntimeWarning, match="the output 'out' is NaN for all 8 samples: the weight 'out/kernel'"):
        model.predict(X)
    with pytest.warns(RuntimeWarning, match="before the first step these values"), pytest.raises(TrainingError):
        model.fit(X, Y, verbose=0)


def test_infinite_outputs_are_no_mistake():
    model = sequence(pt.layers.Dense(1, name="out"))
    model.weights["out/bias"] = np.full((1,), -np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isneginf(model.predict(X)).all()


def test_weights_that_were_infinite_before_are_reported_once():
    """A constant of -inf that a user has put there (a mask) does not end the training."""
    model = sequence(pt.layers.Dense(4, activation="relu", name="masked"), pt.layers.Dense(1, name="out"))
    model.set_trainable(False, "masked")
    bias = np.zeros(4, np.float32)
    bias[0] = -np.inf
    model.weights["masked/bias"] = bias
    with pytest.warns(RuntimeWarning, match=r"before the first step .* 'masked/bias' \(1 of 4 elements: -inf\)"):
        history = model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
