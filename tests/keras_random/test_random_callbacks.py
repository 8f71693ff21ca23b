"""Random callbacks beside Keras on the same random logs: where they stop, which epoch they keep, rates, files."""

from __future__ import annotations

import csv
import inspect

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.train.builtin_callbacks import Callback
from tests.keras_random.differences import differs
from tests.keras_random.draw import drawing, seeds
from tests.keras_random.targets import peer_options
from tests.nets.random_fields import drawn

#: Keras reads PyTorch's arrays in a way that NumPy 2 warns of
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 3)).astype(np.float32), RNG.normal(size=(8, 1)).astype(np.float32)


class ScriptedLogs:
    """Puts values of a table into the logs of each epoch, before the callback under test sees them, and then notes the
    rate of the epoch and the weights after it."""

    def __init__(self, values):
        super().__init__()
        self.values, self.kernels = values, []

    def on_epoch_end(self, epoch, logs=None):
        logs.update({name: values[epoch] for name, values in self.values.items()})
        self.kernels.append(kernel_of(self.model))


class OurLogs(ScriptedLogs, Callback):
    """For prototorch."""


class KerasLogs(ScriptedLogs, keras.callbacks.Callback):
    """For Keras."""


def kernel_of(model):
    """The first weight, as an array of its own."""
    weights = model.get_weights()
    return np.array(next(iter(weights.values())) if isinstance(weights, dict) else weights[0])


def our_model(rate):
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1, name="dense")])
    model.compile(pt.optimizers.SGD(rate), "mse")
    return model


def keras_model(rate):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="dense")])
    model.compile(keras.optimizers.SGD(rate), "mse")
    return model


def random_series(draw, epochs):
    """A monitored value: a random walk, with ties, and NaN after the first epoch."""
    kind = draw.choice(["walk", "ties", "falling", "noise"])
    steps = draw.rng.standard_normal(epochs)
    values = {
        "walk": np.cumsum(steps),
        "ties": np.round(np.cumsum(steps)),
        "falling": -np.cumsum(np.abs(steps)) / 5,
        "noise": steps,
    }[kind] + 3
    if draw.chance(0.25) and differs("NaN as the first monitored value"):
        values[draw.integer(4, epochs - 1)] = np.nan  # start_from_epoch is at most 3
    return [round(float(v), 3) for v in values]


def random_callback(draw, cls, folder):
    """The callback of both sides, and what of it is looked at."""
    peer = getattr(keras.callbacks, cls.__name__)
    known = set(inspect.signature(peer.__init__).parameters)
    fixed = {"monitor": "score", "mode": draw.choice(["min", "max"]), "save_best_only": True, "save_freq": "epoch",
             "patience": draw.integer(0, 4), "cooldown": draw.integer(0, 3), "start_from_epoch": draw.integer(0, 3),
             "min_delta": draw.choice([0.0, 0.1, 1.0]), "baseline": draw.choice([None, 3.0]),
             "initial_value_threshold": draw.choice([None, 2.5]), "min_lr": draw.choice([0.0, 0.01]),
             "separator": draw.choice([",", ";"]), "append": draw.chance(), "timing": False,
             "save_weights_only": True,
             "schedule": draw.choice([lambda epoch: 0.1 / (epoch + 1), lambda epoch, rate: rate * 0.7])}  # fmt: skip
    files = {"filepath": "{epoch}", "filename": "log.csv"}
    fixed = {n: v for n, v in fixed.items() if n in cls.specs()}
    paths = {n: v for n, v in files.items() if n in cls.specs()}
    ends = [".h5", ".weights.h5"] if "filepath" in paths else ["", ""]
    for side in ("ours", "keras"):
        (folder / side).mkdir()
    mine, theirs = (
        {n: str(folder / side / v) + end for n, v in paths.items()}
        for side, end in zip(("ours", "keras"), ends, strict=True)
    )
    ours = drawn(cls, draw.random, **fixed, **mine) if cls.specs() else cls()
    return ours, peer(**peer_options(ours, known) | theirs)


def csv_rows(folder):
    """The rows of the CSV files as dicts, the values as numbers."""
    rows = []
    for path in sorted(folder.glob("*.csv")):
        text = path.read_text()
        reader = csv.DictReader(text.splitlines(), delimiter=";" if ";" in text else ",")
        rows += [{k: float(v) for k, v in row.items() if v not in ("", "NA")} for row in reader]
    return [{k: v for k, v in row.items() if k != "learning_rate"} for row in rows]


def run(model, logs, callback, epochs, folder):
    """What a fit with the callback gives."""
    rates = []
    note = (pt.callbacks if isinstance(model, pt.Model) else keras.callbacks).LambdaCallback(
        on_epoch_end=lambda epoch, logs: rates.append(rate_of(model))
    )
    history = model.fit(X, Y, epochs=epochs, batch_size=8, verbose=0, callbacks=[logs, callback, note])
    last = kernel_of(model)
    kept = min(range(len(logs.kernels)), key=lambda i: float(np.abs(logs.kernels[i] - last).max()))
    best = getattr(callback, "best", None)
    return {"epochs": history.epoch, "rates": np.round(rates, 6).tolist(), "epoch of the weights": kept,
            "stopped": getattr(callback, "stopped_epoch", None) or 0, "best": None if best is None else float(best),
            "saved": sorted(int(p.name.split(".")[0]) for p in folder.glob("*.h5"))}  # fmt: skip


def rate_of(model):
    return float(model.learning_rate if isinstance(model, pt.Model) else model.optimizer.learning_rate)


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_callback_is_keras(seed, tmp_path):
    with drawing("callbacks", seed) as draw:
        left_out = {"History", "LambdaCallback", "TerminateOnNaN"} if differs("A loss that is not finite") else set()
        classes = [
            cls for name, cls in Callback.members().items() if hasattr(keras.callbacks, name) and name not in left_out
        ]
        cls = classes[seed % len(classes)]
        epochs = draw.integer(5, 10)
        series = {name: random_series(draw, epochs) for name in ("score", "other score")}
        ours, theirs = random_callback(draw, cls, tmp_path)
        draw.config |= {"callback": ours, "epochs": epochs, "score": series["score"]}
        mine = run(our_model(0.1), OurLogs(series), ours, epochs, tmp_path / "ours")
        other = run(keras_model(0.1), KerasLogs(series), theirs, epochs, tmp_path / "keras")
        assert mine == other
        mine, other = csv_rows(tmp_path / "ours"), csv_rows(tmp_path / "keras")
        assert [row.keys() for row in mine] == [row.keys() for row in other]
        for a, b in zip(mine, other, strict=True):
            names = {"epoch", *series} & a.keys()
            np.testing.assert_array_equal([a[n] for n in names], [b[n] for n in names])
