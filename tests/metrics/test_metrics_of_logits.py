"""Metrics at a loss of logits, and at one with another axis of classes: as on probabilities, and on classes last."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch import losses as L
from prototorch import metrics as M
from prototorch.errors import DataError, ModelWarning, ShapeError
from prototorch.spec import Spec

RNG = np.random.default_rng(3)
X = RNG.normal(size=(23, 5)).astype(np.float32)  # batches of 8, the last of 7
W = RNG.uniform(0.2, 2, size=23).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[RNG.integers(0, 4, 23)]
BITS = RNG.integers(0, 2, (23, 3)).astype(np.float32)

PROBABILITY_METRICS = {
    "binary": [M.AUC(), M.AUC(name="pr", curve="PR"), M.Precision(), M.Recall(thresholds=[0.3, 0.6]),
               M.F1Score(threshold=0.4), M.FBetaScore(beta=2.0), M.BinaryAccuracy(),
               M.BinaryAccuracy(threshold=0.3, name="at3"),
               M.BinaryCrossentropy(), L.BinaryCrossentropy(), "auc", "accuracy"],
    "one_hot": [M.AUC(), M.Precision(), M.Precision(top_k=2, name="top"), M.Recall(class_id=1),
                M.F1Score(threshold=0.4),
                M.F1Score(average="macro", name="macro"), M.CategoricalCrossentropy(), M.KLDivergence(),
                M.CategoricalAccuracy(), M.TopKCategoricalAccuracy(2), "accuracy", "crossentropy"],
}  # fmt: skip


def classifier(kind, logits, metrics):
    units, activation = (3, "sigmoid") if kind == "binary" else (4, "softmax")
    x = pt.Input((5,))
    model = pt.Model(x, pt.layers.Dense(units, activation=None if logits else activation, name="out")(x))
    loss = (L.BinaryCrossentropy if kind == "binary" else L.CategoricalCrossentropy)(from_logits=logits)
    model.compile("sgd", loss, metrics=metrics, weighted_metrics=metrics)
    weights = np.random.default_rng(5)
    model.set_weights({"out/kernel": weights.normal(size=(5, units)), "out/bias": weights.normal(size=units)})
    return model


@pytest.mark.parametrize("kind", PROBABILITY_METRICS)
def test_metrics_of_logits_are_those_of_the_probabilities(kind):
    y = BITS if kind == "binary" else ONE_HOT
    with_logits = classifier(kind, True, PROBABILITY_METRICS[kind]).evaluate(X, y, batch_size=8, sample_weight=W)
    expected = classifier(kind, False, PROBABILITY_METRICS[kind]).evaluate(X, y, batch_size=8, sample_weight=W)
    assert with_logits.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(with_logits[name], value, rtol=1e-5, atol=1e-6, err_msg=name)  # float32


@pytest.mark.parametrize("metric", [M.MeanIoU, M.ConfusionMatrix, M.BinaryAccuracy])
def test_one_unit_of_logits_is_counted_at_the_logit_of_the_threshold(metric):
    y = BITS[:, :1]
    found = []
    for logits in (True, False):
        x = pt.Input((5,))
        end = pt.layers.Dense(1, activation=None if logits else "sigmoid", name="out")(x)
        model = pt.Model(x, end)
        model.compile("sgd", L.BinaryCrossentropy(from_logits=logits), [metric(threshold=0.4)])
        model.set_weights({"out/kernel": np.arange(5.0).reshape(5, 1) - 2, "out/bias": np.float32([0.1])})
        found.append(np.asarray(model.evaluate(X, y, batch_size=8)[1]))
    np.testing.assert_array_equal(*found)


def test_a_metric_of_logits_at_a_loss_of_probabilities_is_reported():
    with pytest.warns(ModelWarning, match=r"auc \{ from_logits: true \} takes logits.*probabilities"):
        classifier("binary", False, [M.AUC(from_logits=True)]).evaluate(X, BITS)


# ---------------------------------------------------------------- ignored classes, ragged batches

LABELS = RNG.integers(0, 4, (23, 6))
STEPS = RNG.normal(size=(23, 6, 5)).astype(np.float32)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_loss_that_ignores_a_class_has_the_same_denominator_as_a_metric(weighted):
    """The mean is over the positions that count, of all batches together, with their samples' weights."""
    x = pt.Input((6, 5))
    model = pt.Model(x, pt.layers.Dense(4, name="out")(x))
    loss = L.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)
    metrics = [M.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2), loss]
    model.compile("sgd", loss, weighted_metrics=metrics)
    found = model.evaluate(STEPS, LABELS, batch_size=8, **({"sample_weight": W} if weighted else {}))
    logits = model.predict(STEPS)
    each = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, LABELS[..., None], -1)[..., 0]
    weight = (LABELS != 2) * (W[:, None] if weighted else 1.0)
    expected = (each * weight).sum() / weight.sum()
    names = [n for n in found.metrics_names if n != "loss"]
    assert len(names) == 2
    np.testing.assert_allclose([found[n] for n in names], expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_over_ragged_batches_are_those_of_keras(weighted):
    names = ["AUC", "Precision", "Recall", "BinaryAccuracy", "BinaryCrossentropy", "MeanSquaredError", "F1Score"]
    kind = "weighted_metrics" if weighted else "metrics"
    ours = classifier("binary", False, [])
    ours.compile("sgd", "binary_crossentropy", **{kind: [getattr(M, n)() for n in names]})
    x = keras.Input((5,))
    theirs = keras.Model(x, keras.layers.Dense(3, activation="sigmoid")(x))
    theirs.compile(
        "sgd", "binary_crossentropy", **{kind: [getattr(keras.metrics, n)(name=getattr(M, n)().name) for n in names]}
    )
    theirs.set_weights(list(ours.get_weights().values()))
    mine = ours.evaluate(X, BITS, batch_size=8, sample_weight=W)
    other = theirs.evaluate(X, BITS, batch_size=8, sample_weight=W, verbose=0, return_dict=True)
    for name, value in other.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


# ---------------------------------------------------------------- images of classes

IMAGES = RNG.normal(size=(7, 3, 6, 5)).astype(np.float32)
PIXELS = RNG.integers(0, 4, (7, 6, 5))


def segmentation(loss, metrics, last):
    x = pt.Input((3, 6, 5))
    y = pt.layers.Conv2D(4, 1, name="out")(x)
    model = pt.Model(x, pt.layers.Permute([2, 3, 1])(y) if last else y)
    model.compile("sgd", loss, metrics)
    model.set_weights({"out/kernel": np.arange(12.0).reshape(4, 3, 1, 1) % 5 - 2, "out/bias": np.arange(4.0)})
    return model


@pytest.mark.parametrize("one_hot", [False, True])
def test_the_axis_of_the_loss_is_that_of_its_metrics(one_hot):
    prefix = "" if one_hot else "Sparse"
    loss = getattr(L, f"{prefix}CategoricalCrossentropy")
    metrics = ["accuracy", "crossentropy", getattr(M, f"{prefix}CategoricalAccuracy")(name="own"),
               getattr(M, f"{prefix}TopKCategoricalAccuracy")(2),
               getattr(M, f"{prefix}CategoricalCrossentropy")(name="ce2"),
               *([] if one_hot else [M.MeanIoU(), M.ConfusionMatrix()])]  # fmt: skip
    y = np.eye(4, dtype=np.float32)[PIXELS] if one_hot else PIXELS
    first = segmentation(loss(from_logits=True, axis=1), metrics, False)
    last = segmentation(loss(from_logits=True, axis=3), metrics, True)
    mine = first.evaluate(IMAGES, np.moveaxis(y, -1, 1) if one_hot else y, batch_size=4)
    expected = last.evaluate(IMAGES, y, batch_size=4)
    assert mine.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("shape", [(7, 6, 5), (7, 1, 6, 5)])
def test_labels_of_images_at_a_loss_of_the_last_axis_are_refused_with_what_to_write(shape):
    model = segmentation(L.SparseCategoricalCrossentropy(from_logits=True), [], False)
    if len(shape) == 3:
        with pytest.raises(DataError, match=r"axis: 1 at the loss, or Permute \{ dims: \[2, 3, 1\] \}"):
            model.fit(IMAGES, PIXELS, verbose=0)
    with pytest.raises(ShapeError, match=r"axis: 1 at the loss, or Permute \{ dims: \[2, 3, 1\] \}"):
        L.SparseCategoricalCrossentropy().per_sample_loss(
            pt.tensor(PIXELS.reshape(shape)), pt.tensor(np.zeros((7, 4, 6, 5), np.float32))
        )


AXES = [cls for root in (L.Loss, M.Metric) for cls in root.members().values() if "axis" in cls.specs()]


@pytest.mark.parametrize("cls", AXES, ids=lambda c: f"{c.__module__.split('.')[1]}-{c.__name__}")
@pytest.mark.parametrize("axis", [0, 2, 4, -2, -9])
def test_an_axis_that_does_not_exist_or_is_the_batch_is_refused(cls, axis):
    made, output = cls(axis=axis), Spec((6, 5))
    made = getattr(made, "wrapped_loss", made)
    with pytest.raises(ShapeError, match="axis"):
        made.target_spec(output)


@pytest.mark.parametrize("axis", [2, 4, -3])
@pytest.mark.parametrize("metric", [M.MeanIoU, M.ConfusionMatrix])
def test_a_confusion_matrix_along_an_axis_that_does_not_exist_is_refused(metric, axis):
    with pytest.raises(ShapeError, match=r"its axes without that of the batch are 1 to 1"):
        metric(axis=axis).states(Spec((6, 5)))
