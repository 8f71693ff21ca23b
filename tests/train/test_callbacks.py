"""Each callback against its meaning in Keras; the rules by driving both with the same made-up logs."""

from __future__ import annotations

import csv
import io

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TrainingError, UsageError
from prototorch.train.callbacks import Callback

#: Keras reads PyTorch's arrays in a way that NumPy 2 warns of
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

C = pt.callbacks
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 5)).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.int64)


def model(rate: float = 0.1, **more) -> pt.Model:
    made = pt.Sequential([pt.Input((5,)), pt.layers.Dense(4, "relu"), pt.layers.Dense(2)])
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(pt.optimizers.SGD(rate), loss, ["accuracy"], **more)
    return made


class Told(Callback):
    """Puts made-up values into the logs, before the callback under test sees them."""

    def __init__(self, name: str, values: list[float]):
        self.name, self.values = name, values

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = self.values[epoch]


class KerasTold(keras.callbacks.Callback):
    def __init__(self, name, values):
        super().__init__()
        self.name, self.values = name, values

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = self.values[epoch]


def fit(made: pt.Model, callbacks, epochs: int = 8, **more):
    return made.fit(X, Y, epochs=epochs, batch_size=24, callbacks=callbacks, verbose=0, **more)


def peer() -> keras.Model:
    made = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    made.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


RUNS = {
    "falling": [5.0, 4.0, 3.0, 2.0, 1.0, 0.9, 0.8, 0.7],
    "bumps": [5.0, 4.0, 4.5, 3.9, 4.1, 4.2, 4.3, 3.0],
    "flat": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    "rising": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "small steps": [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65],
}
STOPPING = [
    {},
    {"patience": 1},
    {"patience": 2, "min_delta": 0.08},
    {"patience": 3, "baseline": 3.95},
    {"patience": 1, "start_from_epoch": 3},
    {"patience": 2, "mode": "max"},
]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("options", STOPPING, ids=str)
def test_early_stopping_stops_where_keras_does(run, options):
    ours = C.EarlyStopping(monitor="score", **{"mode": "min", **options})
    history = fit(model(), [Told("score", run), ours])
    theirs = keras.callbacks.EarlyStopping(monitor="score", **{"mode": "min", **options}, restore_best_weights=True)
    kept = peer().fit(X, Y, epochs=8, batch_size=24, verbose=0, callbacks=[KerasTold("score", run), theirs])
    assert history.epoch == kept.epoch
    if ours.best is not None:
        assert ours.best_epoch == theirs.best_epoch


def test_early_stopping_gives_back_the_best_weights():
    seen = []
    keep = C.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(made.get_weights()))
    made = model()
    told = Told("val", [3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    fit(made, [told, keep, C.EarlyStopping(monitor="val", mode="min", patience=3)])
    assert len(seen) == 5
    for name, array in made.get_weights().items():
        assert (array == seen[1][name]).all()
    made = model()
    seen.clear()
    fit(made, [told, keep, C.EarlyStopping(monitor="val", mode="min", patience=3, restore_best_weights=False)])
    assert all((array == seen[-1][name]).all() for name, array in made.get_weights().items())


def test_a_callback_begins_anew_in_the_next_fit():
    stop = C.EarlyStopping(monitor="loss", mode="max", patience=2)
    made = model()
    assert len(fit(made, [stop]).epoch) == 3
    assert len(fit(made, [stop]).epoch) == 3


PLATEAUS = [
    {"patience": 1},
    {"patience": 2, "min_delta": 0.08},
    {"patience": 1, "cooldown": 2},
    {"patience": 1, "min_lr": 0.02, "factor": 0.5},
    {"patience": 0},
    {"patience": 1, "mode": "max"},
]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateaus_reduce_the_rate_where_keras_does(run, options):
    mine, theirs = [], []
    made, other = model(), peer()
    fit(
        made,
        [
            Told("score", run),
            C.ReduceLROnPlateau(monitor="score", **{"mode": "min", **options}),
            C.LambdaCallback(on_epoch_end=lambda e, logs: mine.append(made.learning_rate)),
        ],
    )
    rate = other.optimizer
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: theirs.append(float(rate.learning_rate)))
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="score", **{"mode": "min", **options})
    other.fit(X, Y, epochs=8, batch_size=24, verbose=0, callbacks=[KerasTold("score", run), plateau, note])
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)  # Keras keeps the rate in float32


def test_a_reduced_rate_is_used_and_logged():
    made = model()
    history = fit(made, [C.ReduceLROnPlateau(monitor="loss", mode="max", patience=1, factor=0.5)], epochs=4)
    # a value is logged before the callbacks of the same epoch change it
    assert history.history["learning_rate"] == [0.1, 0.1, 0.05, 0.025]


@pytest.mark.parametrize("schedule", [lambda epoch, rate: rate * 0.5, lambda epoch: 0.1 * 0.5 ** (epoch + 1)])
def test_learning_rate_scheduler(schedule):
    history = fit(model(), [C.LearningRateScheduler(schedule)], epochs=3)
    assert history.history["learning_rate"] == [0.05, 0.025, 0.0125]


@pytest.mark.parametrize("rate", ["fast", None, -1.0, float("nan"), True])
def test_learning_rate_scheduler_refuses(rate):
    with pytest.raises(UsageError, match=r"the schedule gave .* for epoch 0, not a learning rate"):
        fit(model(), [C.LearningRateScheduler(lambda epoch, old: rate)])


def test_checkpoint_names(tmp_path):
    fit(model(), [C.ModelCheckpoint(str(tmp_path / "run" / "{epoch:02d}-{loss:.1f}.h5"))], epochs=2)
    assert [p.name[:3] for p in sorted((tmp_path / "run").iterdir())] == ["01-", "02-"]
    fit(model(), [C.ModelCheckpoint(str(tmp_path / "s{epoch}-{batch}.h5"), save_freq=2)], epochs=3)
    assert sorted(p.name for p in tmp_path.glob("s*")) == ["s2-1.h5"]
    with pytest.raises(UsageError, match=r"names 'val_loss', but there are loss, accuracy, learn"):
        fit(model(), [C.ModelCheckpoint(str(tmp_path / "{val_loss}.h5"))])
    with pytest.raises(UsageError, match="the format of 'epoch' must be one of numbers"):
        fit(model(), [C.ModelCheckpoint(str(tmp_path / "{epoch:zz}.h5"))])
    with pytest.raises(UsageError, match="save_freq is at least 1 step"):
        C.ModelCheckpoint("a.h5", save_freq=0)


@pytest.mark.parametrize("threshold", [None, 2.5])
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_checkpoint_of_the_best_only(run, threshold, tmp_path):
    def saved(kind, path, ending):
        more = {"save_weights_only": True} if kind is keras.callbacks.ModelCheckpoint else {}
        return kind(
            path + "{epoch}" + ending,
            monitor="score",
            mode="min",
            save_best_only=True,
            initial_value_threshold=threshold,
            **more,
        )

    fit(model(), [Told("score", run), saved(C.ModelCheckpoint, str(tmp_path / "a"), ".h5")])
    theirs = [KerasTold("score", run), saved(keras.callbacks.ModelCheckpoint, str(tmp_path / "b"), ".weights.h5")]
    peer().fit(X, Y, epochs=8, batch_size=24, verbose=0, callbacks=theirs)
    found = [sorted(p.name[1] for p in tmp_path.glob(f"{letter}*")) for letter in "ab"]
    assert found[0] == found[1]


def test_checkpoints_hold_the_model(tmp_path):
    made = model()
    path = str(tmp_path / "{epoch}.h5")
    seen = {}
    keep = C.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.update({epoch + 1: made.get_weights()}))
    fit(made, [C.ModelCheckpoint(path), keep], epochs=2)
    for epoch, weights in seen.items():
        again = pt.load_model(path.format(epoch=epoch))
        assert all((again.weights[name] == array).all() for name, array in weights.items())
    only = str(tmp_path / "w.h5")
    fit(made, [C.ModelCheckpoint(only, save_weights_only=True)], epochs=2)
    assert pt.load_model(only).trainer.step == 0


def test_csv_logger(tmp_path):
    path = tmp_path / "log.csv"
    history = fit(model(), [C.CSVLogger(str(path), separator=";")], epochs=3)
    rows = list(csv.DictReader(io.StringIO(path.read_text()), delimiter=";"))
    assert [int(r["epoch"]) for r in rows] == [0, 1, 2]
    assert [float(r["loss"]) for r in rows] == history.history["loss"]  # every digit
    fit(model(), [C.CSVLogger(str(path), separator=";", append=True)], epochs=2)
    assert [line[0] for line in path.read_text().splitlines()] == ["e", "0", "1", "2", "0", "1"]
    fit(model(), [C.CSVLogger(str(path))], epochs=2, validation_split=0.25, validation_freq=2)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [r["val_loss"] == "" for r in rows] == [True, False]
    with pytest.raises(UsageError, match=r"CSVLogger.filename .*: its folder .* does not exist"):
        fit(model(), [C.CSVLogger(str(tmp_path / "no" / "log.csv"))])


def test_terminate_on_nan_names_the_step():
    made = pt.Sequential([pt.Input((5,)), pt.layers.Dense(1)])
    made.compile(pt.optimizers.SGD(1e30), "mse")
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step 2 of epoch 1"), np.errstate(all="ignore"):
        made.fit(X, Y, batch_size=8, epochs=2, verbose=0, callbacks=[C.TerminateOnNaN()])


def test_every_hook_in_keras_order():
    mine, theirs = [], []
    hooks = [name for name in dir(Callback) if name.startswith("on_") and hasattr(keras.callbacks.Callback, name)]

    class Ours(Callback):
        """No call of super().__init__."""

        def __init__(self, calls):
            self.calls = calls

    class Theirs(keras.callbacks.Callback):
        def __init__(self, calls):
            super().__init__()
            self.calls = calls

    def noting(hook):
        def call(self, *args, logs=None):
            numbers = [a for a in args if isinstance(a, int)]
            self.calls.append((hook, *numbers))

        return call

    for hook in hooks:
        for kind in (Ours, Theirs):
            setattr(kind, hook, noting(hook))
    made, other = model(), peer()
    for one, callback in ((made, Ours(mine)), (other, Theirs(theirs))):
        one.fit(X, Y, epochs=2, batch_size=10, verbose=0, callbacks=[callback], validation_data=(X[::-1] + 1, Y))
        one.evaluate(X, Y, batch_size=10, verbose=0, callbacks=[callback])
        one.predict(X, batch_size=10, callbacks=[callback], **({"verbose": 0} if one is other else {}))
    # Keras validates in batches of the same size, and numbers them from 0 too
    assert mine == theirs


def test_what_a_callback_is_given():
    seen = {}

    class LookAtLogs(Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen["batch"] = dict(logs)

        def on_epoch_end(self, epoch, logs=None):
            seen["epoch"] = dict(logs)
            seen["params"] = dict(self.params)
            assert self.model is made

        def on_predict_batch_end(self, batch, logs=None):
            seen["outputs"] = logs["outputs"]

    made = model()
    fit(made, [LookAtLogs()], epochs=1, validation_split=0.5)
    assert set(seen["batch"]) == {"loss", "accuracy", "batch_loss"}
    assert set(seen["epoch"]) == {"loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"}
    assert seen["params"].pop("directions") == {"loss": "min", "dense_2_loss": "min", "accuracy": "max"}
    assert seen["params"] == {"epochs": 1, "steps": 1, "samples": 12, "batch_size": 24, "validation": True}
    made.predict(X, callbacks=[LookAtLogs()])
    assert list(seen["outputs"]) == ["dense_2"]


def test_a_callback_stops_the_training():
    class StopEarly(Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 1

    made = model()
    history = made.fit(X, Y, epochs=5, batch_size=4, verbose=0, callbacks=[StopEarly()])
    assert (history.epoch, made.trainer.step) == ([0], 2)


def test_epochs_without_validation_are_passed_over():
    stop = C.EarlyStopping(monitor="val_loss", patience=9)
    fit(model(), [stop], epochs=6, validation_split=0.5, validation_freq=3)
    assert stop.best_epoch == 5


def test_accuracy_is_better_when_more():
    stop = C.EarlyStopping(monitor="accuracy")
    fit(model(), [Told("accuracy", [0.1, 0.2, 0.3, 0.2, 0.1]), stop], epochs=5)
    assert (stop.best, stop.stopped_epoch) == (0.3, 3)


def test_lambda_callback_and_what_is_no_callback():
    with pytest.raises(UsageError, match="there is no hook 'on_epoch_over'"):
        C.LambdaCallback(on_epoch_over=print)
    with pytest.raises(UsageError, match=r"is no prototorch\.Callback"):
        fit(model(), [print])
    with pytest.raises(UsageError, match="patience"):
        C.EarlyStopping(patience=-1)


def test_callbacks_in_a_text(tmp_path):
    path = tmp_path / "a.proto"
    path.write_text("""
input { name: "x"  shape: [5] }
Dense { units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true } }
fit { epochs: 9  callbacks: [EarlyStopping { monitor: "loss"  mode: max  patience: 2 }] }
""")
    made = pt.load_model(path)
    assert len(made.fit(X, Y, verbose=0).epoch) == 3
    again = tmp_path / "b.proto"
    again.write_text(made.to_text())
    assert pt.load_model(again).fit_block == made.fit_block


@pytest.mark.parametrize(
    ("monitor", "sign"),
    [("loss", -1), ("val_mean_io_u", 1), ("accuracy", 1), ("root_mean_squared_error", -1), ("cosine_similarity", 1)],
)
def test_the_direction_is_the_metrics_own(monitor, sign):
    """A metric declares whether more of it is better; its name does not matter."""
    metrics = ["accuracy", pt.metrics.MeanIoU(), pt.metrics.RootMeanSquaredError(), pt.metrics.CosineSimilarity()]
    signs = []

    class Probe(C.EarlyStopping):
        def on_epoch_end(self, epoch, logs=None):
            signs.append(self.sign)

    made = pt.Sequential([pt.Input((5,)), pt.layers.Dense(5, "softmax")])
    made.compile("sgd", "categorical_crossentropy", [m for m in metrics if not isinstance(m, pt.metrics.MeanIoU)])
    if "mean_io_u" in monitor:
        made = model()
        made.compile("sgd", made.compile_block.loss[0].type, [metrics[1]])
    made.fit(
        X,
        Y if "mean_io_u" in monitor else np.eye(5, dtype=np.float32)[Y],
        epochs=1,
        verbose=0,
        callbacks=[Probe(monitor=monitor)],
        validation_split=0.25,
    )
    assert signs == [sign]


def test_the_loss_of_an_output_is_minimized_whatever_its_name():
    x = pt.Input((5,), name="x")
    heads = [pt.layers.Dense(2, name="acceleration")(x), pt.layers.Dense(2, name="recall")(x)]
    made = pt.Model(x, heads)
    made.compile("sgd", {"acceleration": "mse", "recall": "mse"})
    stop = C.EarlyStopping(monitor="acceleration_loss")
    made.fit(X, {"acceleration": X[:, :2], "recall": X[:, :2]}, epochs=1, verbose=0, callbacks=[stop])
    assert stop.sign == -1


def test_a_value_without_a_direction_needs_a_mode():
    with pytest.raises(UsageError, match="cannot tell whether a smaller or a larger 'score' is better"):
        fit(model(), [Told("score", [1.0, 2.0]), C.EarlyStopping(monitor="score")], epochs=1)


def test_a_weighted_metric_is_named_as_in_keras():
    made = model()
    made.compile("sgd", made.compile_block.loss[0].type, ["accuracy"], weighted_metrics=["accuracy"])
    history = made.fit(X, Y, epochs=1, verbose=0).history
    assert {"accuracy", "weighted_accuracy"} <= set(history)
    made.compile("sgd", made.compile_block.loss[0].type, weighted_metrics=["accuracy"])
    assert "accuracy" in made.fit(X, Y, epochs=1, verbose=0).history
