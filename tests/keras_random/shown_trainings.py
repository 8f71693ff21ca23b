"""Differences of losses, metrics, callbacks and trainings: each case gives one thing in Keras and another here."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import PrototorchError, TrainingError, UsageError
from prototorch.spec import Spec
from tests.keras_random.showing import shows


@shows("Reduction of a loss")
def reduction():
    with pytest.raises(UsageError, match="reduction"):
        pt.losses.MeanSquaredError(reduction="sum")
    assert keras.losses.MeanSquaredError(reduction="sum").reduction == "sum"


def metric_value(metric, target, output):
    states = {n: pt.tensor(np.zeros(s.shape, s.dtype)) for n, s in metric.states(Spec(output.shape)).items()}
    weight = pt.tensor(np.ones(len(output), np.float32))
    states = metric.update(states, pt.tensor(target), pt.tensor(output), weight)
    return float(metric.result({n: v.numpy() for n, v in states.items()}))


def keras_value(metric, target, output):
    metric.update_state(torch.tensor(target), torch.tensor(output))
    return float(metric.result())


@shows("Ignored classes in a metric")
def ignored_classes():
    target, output = np.array([0, 1, 1, 0]), np.full((4, 2), 0.5, np.float32)
    options = {"ignore_class": 1}
    ours = metric_value(pt.metrics.SparseCategoricalCrossentropy(**options), target, output)
    theirs = keras_value(keras.metrics.SparseCategoricalCrossentropy(**options), target, output)
    assert (ours, theirs) == pytest.approx((np.log(2), np.log(2) / 2), rel=1e-5)
    loss = keras.losses.SparseCategoricalCrossentropy(**options)
    assert float(loss(torch.tensor(target), torch.tensor(output))) == pytest.approx(ours, rel=1e-5)


@shows("MeanIoU reads the net's outputs")
def mean_iou():
    target, output = np.array([0, 1, 2, 2]), np.eye(3, dtype=np.float32)[[0, 1, 2, 1]]
    theirs = keras_value(keras.metrics.MeanIoU(3, sparse_y_pred=False), target, output)
    assert metric_value(pt.metrics.MeanIoU(), target, output) == pytest.approx(theirs)
    with pytest.raises((ValueError, RuntimeError)):
        keras_value(keras.metrics.MeanIoU(3), target, output)


def compiled(library, units, loss, metrics=(), **options):
    """A dense layer, whose weights are 0 but for a diagonal of 1."""
    model = library.Sequential([library.Input((2,)), library.layers.Dense(units)])
    model.compile("sgd", loss(library), metrics=list(metrics), **options)
    if isinstance(model, pt.Model):
        model.predict(np.zeros((1, 2), np.float32))
        (name,) = [n for n in model.weights if n.endswith("/kernel")]
        model.weights[name] = np.eye(2, units, dtype=np.float32)
    else:
        model.layers[0].kernel.assign(np.eye(2, units, dtype=np.float32))
    return model


def accuracies(x, y, units):
    for library in (pt, keras):
        model = compiled(library, units, lambda lib: lib.losses.BinaryCrossentropy(from_logits=True), ["accuracy"])
        results = model.evaluate(x, y, verbose=0, **({"return_dict": True} if library is keras else {}))
        yield results["accuracy"]


@shows("Accuracy of logits")
def accuracy_of_logits():
    x = np.array([[0.3, 0.0], [-0.3, 0.0]], np.float32)  # 0.3 means yes
    assert tuple(accuracies(x, np.array([[1.0], [0.0]], np.float32), 1)) == (1.0, 0.5)


@shows("Accuracy of several binary outputs")
def accuracy_of_several():
    x = np.array([[2.0, 1.0], [1.0, 2.0]], np.float32)  # yes and yes, the likeliest of which is right
    assert tuple(accuracies(x, np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), 2)) == (0.5, 1.0)


def fitted(library, callbacks=(), loss="mse", epochs=1, rate=0.01, x=None, **more):
    model = compiled(library, 1, lambda lib: loss)
    model.compile(library.optimizers.SGD(rate), loss)
    x = np.ones((4, 2), np.float32) if x is None else x
    return model, model.fit(
        x, np.zeros((len(x), 1), np.float32), epochs=epochs, verbose=0, callbacks=list(callbacks), **more
    )


@shows("Restarts of CosineDecayRestarts")
def restarts():
    late = 0
    for t_mul, second in ((1.1, 11), (1.3, 13), (1.5, 15)):  # the first period has 10 steps
        steps = (0, 10, 10 + second)
        assert [pt.schedules.CosineDecayRestarts(0.1, 10, t_mul=t_mul).value(step) for step in steps] == [0.1] * 3
        for first in (2, 4, 10):  # where the rounding of a logarithm decides, which processors do differently
            theirs = keras.optimizers.schedules.CosineDecayRestarts(0.1, first, t_mul=t_mul)
            exact = pt.schedules.CosineDecayRestarts(0.1, first, t_mul=t_mul)
            late += sum(abs(float(theirs(step)) - exact.value(step)) > 0.05 for step in range(40))
    assert late > 0


@shows("The learning rate in the logs")
def rate_in_logs():
    assert set(fitted(pt)[1].history) == {"loss", "learning_rate"}
    assert set(fitted(keras)[1].history) == {"loss"}


@shows("EarlyStopping restores")
def restores():
    assert pt.callbacks.EarlyStopping().restore_best_weights is True
    assert keras.callbacks.EarlyStopping().restore_best_weights is False


@shows("NaN as the first monitored value")
def first_nan():
    best = []
    for library in (pt, keras):

        class Score(library.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                logs["score"] = [np.nan, 2.0, 3.0][epoch]

        stop = library.callbacks.EarlyStopping(monitor="score", mode="min", patience=5)
        fitted(library, [Score(), stop], epochs=3)
        best.append(stop.best)
    assert best[0] == 2.0
    assert np.isnan(best[1])


@shows("A loss that is not finite")
def not_finite():
    x = np.array([[np.inf, 0.0]] * 4, np.float32)
    with pytest.raises(TrainingError, match=r"finite|inf|nan"):
        fitted(pt, x=np.full((4, 2), 3e38, np.float32), epochs=2)
    model, history = fitted(keras, x=x, epochs=2, callbacks=[keras.callbacks.TerminateOnNaN()])
    assert history.epoch == [0]
    assert not np.isfinite(model.layers[0].kernel.numpy()).all()


@shows("A loss without metrics")
def lone_loss():
    x, y = np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)
    ours, theirs = (compiled(library, 1, lambda _: "mse") for library in (pt, keras))
    for one, other in (
        (ours.evaluate(x, y), theirs.evaluate(x, y, verbose=0)),
        (ours.train_on_batch(x, y), theirs.train_on_batch(x, y)),
    ):
        assert isinstance(one, tuple)
        assert len(one) == 1
        assert float(one) == one["loss"] == one[0]
        assert np.ndim(other) == 0
    loss, error = compiled(keras, 1, lambda _: "mse", ["mae"]).evaluate(x, y, verbose=0)
    first, second = compiled(pt, 1, lambda _: "mse", ["mae"]).evaluate(x, y)
    assert np.isfinite([loss, error, first, second]).all()


def two_outputs(library):
    start = library.Input((2,), name="x")
    return library.Model(start, [library.layers.Dense(1, name=name)(start) for name in ("a", "b")])


@shows("Several outputs of predict")
def predict_names():
    x = np.ones((3, 2), np.float32)
    assert list(two_outputs(pt).predict(x)) == ["a", "b"]
    assert isinstance(two_outputs(keras).predict(x, verbose=0), list)


@shows("Weights have names")
def weight_names():
    x = np.ones((1, 2), np.float32)
    model = two_outputs(pt)
    model.predict(x)
    assert set(model.get_weights()) == {"a/kernel", "a/bias", "b/kernel", "b/bias"}
    assert isinstance(two_outputs(keras).get_weights(), list)


@shows("Kernels of convolutions")
def kernel_layout():
    model = pt.Sequential([pt.Input((3, 5, 6)), pt.layers.Conv2D(4, (2, 1), name="conv")])
    model.predict(np.ones((1, 3, 5, 6), np.float32))
    assert model.weights["conv/kernel"].shape == (4, 3, 2, 1)
    layer = keras.layers.Conv2D(4, (2, 1))
    layer.build((1, 5, 6, 3))
    assert tuple(layer.kernel.shape) == (2, 1, 3, 4)


@shows("Columns of CSVLogger")
def csv_columns(tmp_path):
    heads = []
    for library in (pt, keras):

        class Scores(library.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                logs.update({"b": 2.0, "a": 1.0} if epoch else {"b": 2.0, "a": 1.0, "c": 3.0})

        path = tmp_path / f"{library.__name__}.csv"
        fitted(library, [Scores(), library.callbacks.CSVLogger(str(path))], epochs=2)
        heads.append([line.split(",") for line in path.read_text().splitlines()])
    assert heads[0][0] == ["epoch", "loss", "learning_rate", "b", "a", "c"]
    assert heads[0][2][-1] == ""
    assert heads[1][0][:5] == ["epoch", "a", "b", "c", "loss"]
    assert heads[1][2][3] == "NA"


@shows("A monitor that is not logged")
def unknown_monitor():
    with pytest.raises(UsageError, match="val_los"):
        fitted(pt, [pt.callbacks.EarlyStopping(monitor="val_los")])
    assert fitted(keras, [keras.callbacks.EarlyStopping(monitor="val_los", mode="min")], epochs=2)[1].epoch == [0, 1]


@shows("A model of one file")
def endings(tmp_path):
    model = two_outputs(pt)
    model.predict(np.ones((1, 2), np.float32))
    model.save(str(tmp_path / "m.h5"))
    two_outputs(keras).save(str(tmp_path / "m.keras"))
    assert (tmp_path / "m.keras").read_bytes()[:2] == b"PK"
    assert b"\x89HDF" in (tmp_path / "m.h5").read_bytes()


@shows("Sample weights of several outputs")
def weights_of_several_outputs():
    x, weight = np.ones((4, 2), np.float32), np.array([1.0, 2.0, 0.0, 1.0], np.float32)
    for library in (pt, keras):
        start = library.Input((2,), name="x")
        outputs = [library.layers.Dense(1, name=name)(start) for name in ("a", "b")]
        model = library.Model(start, outputs)
        model.compile("sgd", {"a": "mse", "b": "mse"})
        y = [np.zeros((4, 1), np.float32)] * 2
        each = [weight, 2 * weight]
        if library is pt:
            with pytest.raises(PrototorchError, match="sample_weight"):
                model.fit(x, y, sample_weight=each, verbose=0)
        else:
            model.fit(x, y, sample_weight=each, verbose=0)


@shows("An epoch beyond the end of the data")
def beyond_the_data():
    for library, steps in ((pt, [2, 2]), (keras, [2, 1])):

        class Steps(library.callbacks.Callback):
            def __init__(self):
                self.counts = []

            def on_epoch_begin(self, epoch, logs=None):
                self.counts.append(0)

            def on_train_batch_end(self, batch, logs=None):
                self.counts[-1] += 1

        counting = Steps()
        fitted(library, [counting], epochs=2, batch_size=2, steps_per_epoch=2, x=np.ones((6, 2), np.float32))
        assert counting.counts == steps


@shows("class_weight beside sample_weight")
def both_weights():
    x, y = np.ones((4, 2), np.float32), np.array([[0.0], [1.0], [1.0], [0.0]], np.float32)
    weights = {"class_weight": {0: 1.0, 1: 3.0}, "sample_weight": np.array([1.0, 2.0, 0.0, 1.0], np.float32)}
    options = {"epochs": 1, "verbose": 0, "shuffle": False}
    product = compiled(pt, 1, lambda lib: lib.losses.BinaryCrossentropy(from_logits=True))
    together = product.fit(x, y, **weights, **options).history["loss"]
    alone = compiled(pt, 1, lambda lib: lib.losses.BinaryCrossentropy(from_logits=True))
    weight = np.array([1.0, 6.0, 0.0, 1.0], np.float32)
    np.testing.assert_allclose(alone.fit(x, y, sample_weight=weight, **options).history["loss"], together, rtol=1e-6)
    with pytest.raises(ValueError, match="class_weight"):
        compiled(keras, 1, lambda lib: lib.losses.BinaryCrossentropy(from_logits=True)).fit(x, y, **weights, **options)


@shows("The defaults of compile")
def compile_defaults():
    names = [list(inspect.signature(model.compile).parameters)[1:4] for model in (pt.Model, keras.Model)]
    assert names == [["optimizer", "loss", "metrics"], ["optimizer", "loss", "loss_weights"]]
    defaults = [inspect.signature(model.compile).parameters["optimizer"].default for model in (pt.Model, keras.Model)]
    assert defaults == ["adam", "rmsprop"]
