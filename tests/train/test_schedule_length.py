"""Schedules in epochs, and schedules that do not fit the length of a fit."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ModelWarning, UsageError
from prototorch.optimizers import schedules as S
from tests.train.test_resume import Stop, fresh, same

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = X[:, :1] * 2


class Rates(pt.Callback):
    """The learning rate of each step."""

    display = True

    def __init__(self):
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(self.model.learning_rate)


def compiled(schedule) -> pt.Model:
    made = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1)])
    made.compile(pt.optimizers.SGD(schedule), "mse")
    return made


def rates_of(schedule, epochs=4, batch_size=5, **options) -> list[float]:
    """The rate of each step: 4 steps an epoch."""
    seen = Rates()
    compiled(schedule).fit(X, Y, epochs=epochs, batch_size=batch_size, verbose=0, callbacks=[seen], **options)
    return seen.rates


PAIRS = {
    "step": (S.StepDecay(0.1, 2, unit="epochs"), S.StepDecay(0.1, 8)),
    "cosine": (S.CosineDecay(0.1, 4, unit="epochs"), S.CosineDecay(0.1, 16)),
    "warm-up": (
        S.Warmup(S.CosineDecay(0.1, 3, unit="epochs"), 1, unit="epochs"),
        S.Warmup(S.CosineDecay(0.1, 12), 4),
    ),
    "polynomial": (S.PolynomialDecay(0.1, 4, unit="epochs"), S.PolynomialDecay(0.1, 16)),
    "exponential": (S.ExponentialDecay(0.1, 1, 0.5, unit="epochs"), S.ExponentialDecay(0.1, 4, 0.5)),
    "staircase": (
        S.InverseTimeDecay(0.1, 1, 0.5, staircase=True, unit="epochs"),
        S.InverseTimeDecay(0.1, 4, 0.5, staircase=True),
    ),
    "restarts": (S.CosineDecayRestarts(0.1, 2, unit="epochs"), S.CosineDecayRestarts(0.1, 8)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_epochs_are_that_many_steps(pair):
    in_epochs, in_steps = pair
    assert rates_of(in_epochs) == pytest.approx(rates_of(in_steps), rel=1e-12)


def test_boundaries_in_epochs_hold_from_the_next_epoch_on():
    rates = rates_of(S.PiecewiseConstantDecay([1, 3], [0.1, 0.01, 0.001], unit="epochs"))
    assert rates == [0.1] * 4 + [0.01] * 8 + [0.001] * 4


def test_epochs_do_not_depend_on_the_batch_size():
    schedule = S.StepDecay(0.1, 2, unit="epochs")
    assert rates_of(schedule, batch_size=10) == pytest.approx([0.1] * 4 + [0.01] * 4)
    assert rates_of(schedule, steps_per_epoch=3) == pytest.approx([0.1] * 6 + [0.01] * 6)


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_a_resumed_training_goes_on_at_its_rate(tmp_path):
    optimizer = pt.optimizers.SGD(S.CosineDecay(0.1, 3, unit="epochs"))
    x = np.random.default_rng(0).integers(0, 256, (20, 1, 6, 6)).astype(np.uint8)
    y = np.arange(20) % 3
    whole, part = fresh(tmp_path, optimizer), fresh(tmp_path, optimizer)
    whole.fit(x, y, epochs=3, batch_size=6, verbose=0)
    part.fit(x, y, epochs=3, batch_size=6, verbose=0, callbacks=[Stop(1, 2)])
    part.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    again.fit(x, y, epochs=3, batch_size=6, verbose=0)
    same(whole, again)


def test_epochs_that_cannot_be_counted_are_refused():
    made = compiled(S.StepDecay(0.1, 2, unit="epochs"))
    with pytest.raises(UsageError, match="StepDecay has unit: epochs, but how many steps an epoch has is not known"):
        made.fit(lambda: iter([(X, Y)]), epochs=1, verbose=0)
    with pytest.raises(UsageError, match="train_on_batch counts no epochs"):
        made.train_on_batch(X, Y)
    made.learning_rate = 0.1
    made.train_on_batch(X, Y)
    with pytest.raises(UsageError, match="the warm-up counts steps and its schedule epochs"):
        S.Warmup(S.StepDecay(0.1, 2, unit="epochs"), 3)


@pytest.mark.parametrize(
    ("schedule", "epochs", "expected"),
    [
        (S.CosineDecay(0.1, 400), 4, "CosineDecay comes down until 400 steps, but this fit ends after 16 steps, with a "
                                     "learning rate of 0.0996"),
        (S.CosineDecay(0.1, 8), 4, "CosineDecay has come down after 8 steps, but this fit goes on until 16 steps, with "
                                   "a learning rate of 0:"),
        (S.Warmup(S.CosineDecay(0.1, 40), 4), 4, "Warmup comes down until 44 steps, but this fit ends after 16"),
        (S.StepDecay(0.1, 30, unit="epochs"), 4, "StepDecay comes down until 30 epochs, but this fit ends after 4"),
        (S.PiecewiseConstantDecay([10, 40], [0.1, 0.01, 0.001]), 4, "comes down until 40 steps"),
        (S.CosineDecay(0.1, 16), 4, None),
        (S.CosineDecay(0.1, 8, alpha=0.1), 4, None),
        (S.PiecewiseConstantDecay([4, 8], [0.1, 0.01, 0.001]), 4, None),
        (S.ExponentialDecay(0.1, 1000, 0.9), 4, None),
        (S.StepDecay(0.1, 2), 4, None),
        (0.1, 4, None),
    ],
)  # fmt: skip
def test_a_schedule_for_another_length_is_reported_with_both_numbers(schedule, epochs, expected):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rates_of(schedule, epochs)
    messages = [str(one.message) for one in caught if one.category is ModelWarning]
    if expected is None:
        assert messages == []
    else:
        assert len(messages) == 1
        assert expected in messages[0]


def test_a_further_fit_is_not_reported_as_too_short():
    made = compiled(S.CosineDecay(0.1, 16))
    with pytest.warns(ModelWarning, match="comes down until 16 steps, but this fit ends after 4"):
        made.fit(X, Y, epochs=1, batch_size=5, verbose=0)
    for _ in range(3):
        made.fit(X, Y, epochs=1, batch_size=5, verbose=0)


TEXT = """
param epochs: 90
input { shape: [3] }
Dense { units: 1 }
compile {
  loss: mse
  optimizer: SGD { learning_rate: CosineDecay { initial_learning_rate: 0.1  decay_steps: $(epochs * 4) } }
}
fit { epochs: EPOCHS  batch_size: 5 }
"""


def test_setting_the_epochs_sets_the_param_that_they_read(tmp_path):
    path = Path(tmp_path / "t.proto")
    path.write_text(TEXT.replace("EPOCHS", "$epochs"))
    for settings, epochs, steps in (
        (("fit.epochs=5",), 5, 20),
        (("epochs=6",), 6, 24),
        (("epochs=6", "fit.epochs=6"), 6, 24),
        ((), 90, 360),
    ):
        made = pt.load_model(path, overrides=settings)
        assert made.fit_block.epochs == epochs
        assert made.compile_block.optimizer.learning_rate.decay_steps == steps
    path.write_text(TEXT.replace("EPOCHS", "90"))
    with pytest.warns(ModelWarning, match=r"fit\.epochs is set to 5, and the text's param epochs stays 90"):
        made = pt.load_model(path, overrides=["fit.epochs=5"])
    assert (made.fit_block.epochs, made.compile_block.optimizer.learning_rate.decay_steps) == (5, 360)
