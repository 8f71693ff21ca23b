"""Every metric equals Keras' over several weighted batches, as a state of a plan and at once."""

from __future__ import annotations

import os
import re

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest
import torch

from prototorch import metrics as M
from prototorch import tensor
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.ops.core import use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

K = keras.metrics
RNG = np.random.default_rng(11)
BATCHES, SIZE = 3, 16


def f32(array):
    return np.asarray(array, np.float32)


def real(*shape):
    return [f32(RNG.normal(size=(SIZE, *shape))) for _ in range(BATCHES)]


def chance(*shape):
    return [f32(RNG.uniform(0.01, 0.99, size=(SIZE, *shape))) for _ in range(BATCHES)]


def positive(*shape):
    return [x + 0.1 for x in chance(*shape)]


def shares(*shape):
    return [x / x.sum(-1, keepdims=True) for x in chance(*shape)]


def labels(classes, *shape):
    return [RNG.integers(0, classes, size=(SIZE, *shape)).astype(np.int32) for _ in range(BATCHES)]


def one_hot(classes, *shape):
    return [f32(np.eye(classes)[y]) for y in labels(classes, *shape)]


def bits(*shape):
    return [f32(RNG.integers(0, 2, size=(SIZE, *shape))) for _ in range(BATCHES)]


def coarse(*shape):
    """Values that meet thresholds exactly, and each other."""
    return [f32(RNG.integers(0, 11, size=(SIZE, *shape)) / 10) for _ in range(BATCHES)]


CASES = [
    (M.BinaryAccuracy(), K.BinaryAccuracy(), bits(3), chance(3)),
    (M.BinaryAccuracy(threshold=0.0), K.BinaryAccuracy(threshold=0.0), bits(1), real(1)),
    (M.CategoricalAccuracy(), K.CategoricalAccuracy(), one_hot(5), real(5)),
    (M.CategoricalAccuracy(), K.CategoricalAccuracy(), one_hot(5, 4), real(4, 5)),
    (M.SparseCategoricalAccuracy(), K.SparseCategoricalAccuracy(), labels(5), real(5)),
    (M.SparseCategoricalAccuracy(), K.SparseCategoricalAccuracy(), labels(5, 4), real(4, 5)),
    (M.TopKCategoricalAccuracy(2), K.TopKCategoricalAccuracy(k=2), one_hot(5), real(5)),
    (M.TopKCategoricalAccuracy(2), K.TopKCategoricalAccuracy(k=2), one_hot(5), coarse(5)),
    (M.SparseTopKCategoricalAccuracy(3), K.SparseTopKCategoricalAccuracy(k=3), labels(5), real(5)),
    (M.SparseTopKCategoricalAccuracy(), K.SparseTopKCategoricalAccuracy(), labels(9, 4), real(4, 9)),
    (M.MeanSquaredError(), K.MeanSquaredError(), real(3), real(3)),
    (M.MeanSquaredError(), K.MeanSquaredError(), real(4, 3), real(4, 3)),
    (M.RootMeanSquaredError(), K.RootMeanSquaredError(), real(3), real(3)),
    (M.MeanAbsoluteError(), K.MeanAbsoluteError(), real(3), real(3)),
    (M.MeanAbsolutePercentageError(), K.MeanAbsolutePercentageError(), positive(3), real(3)),
    (M.MeanSquaredLogarithmicError(), K.MeanSquaredLogarithmicError(), positive(3), positive(3)),
    (M.LogCoshError(), K.LogCoshError(), real(3), real(3)),
    (M.CosineSimilarity(), K.CosineSimilarity(), real(3), real(3)),
    (M.KLDivergence(), K.KLDivergence(), shares(5), shares(5)),
    (M.Poisson(), K.Poisson(), positive(3), positive(3)),
    (M.Hinge(), K.Hinge(), bits(3), real(3)),
    (M.SquaredHinge(), K.SquaredHinge(), bits(3), real(3)),
    (M.CategoricalHinge(), K.CategoricalHinge(), one_hot(5), real(5)),
    (M.BinaryCrossentropy(), K.BinaryCrossentropy(), bits(3), chance(3)),
    (
        M.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
        K.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
        bits(3),
        real(3),
    ),
    (M.CategoricalCrossentropy(), K.CategoricalCrossentropy(), one_hot(5), shares(5)),
    (
        M.SparseCategoricalCrossentropy(from_logits=True),
        K.SparseCategoricalCrossentropy(from_logits=True),
        labels(5),
        real(5),
    ),
    (M.Precision(), K.Precision(), bits(3), chance(3)),
    (M.Precision([0.25, 0.5, 0.9]), K.Precision(thresholds=[0.25, 0.5, 0.9]), bits(3), coarse(3)),
    (M.Precision(top_k=2), K.Precision(top_k=2), one_hot(5), chance(5)),
    (M.Precision(top_k=2, class_id=1), K.Precision(top_k=2, class_id=1), one_hot(5), chance(5)),
    (M.Precision(0.3, class_id=2), K.Precision(thresholds=0.3, class_id=2), one_hot(5), chance(5)),
    (M.Recall(), K.Recall(), bits(1), coarse(1)),
    (M.Recall([0.2, 0.8]), K.Recall(thresholds=[0.2, 0.8]), bits(3), chance(3)),
    (M.Recall(top_k=3), K.Recall(top_k=3), one_hot(5), real(5)),
    (M.AUC(), K.AUC(), bits(1), chance(1)),
    (M.AUC(), K.AUC(), bits(3), coarse(3)),
    (M.AUC(11), K.AUC(num_thresholds=11), bits(1), coarse(1)),
    (M.AUC(curve="PR"), K.AUC(curve="PR"), bits(1), chance(1)),
    (
        M.AUC(curve="PR", summation_method="minoring"),
        K.AUC(curve="PR", summation_method="minoring"),
        bits(1),
        chance(1),
    ),
    (M.AUC(summation_method="majoring"), K.AUC(summation_method="majoring"), bits(1), chance(1)),
    (M.AUC(thresholds=[0.2, 0.3, 0.7]), K.AUC(thresholds=[0.2, 0.3, 0.7]), bits(1), coarse(1)),
    (M.AUC(from_logits=True), K.AUC(from_logits=True), bits(1), real(1)),
    (M.F1Score(), K.F1Score(), one_hot(5), shares(5)),
    (M.F1Score("macro"), K.F1Score(average="macro"), one_hot(5), coarse(5)),
    (M.F1Score("micro", 0.3), K.F1Score(average="micro", threshold=0.3), bits(5), chance(5)),
    (M.FBetaScore("weighted", 2.0), K.FBetaScore(average="weighted", beta=2.0), one_hot(5), shares(5)),
    (M.FBetaScore(None, 0.5, 0.5), K.FBetaScore(beta=0.5, threshold=0.5), bits(5), chance(5)),
]
IDS = [f"{i}-{case[0]!r}" for i, case in enumerate(CASES)]


def by_keras(metric, targets, outputs, weights):
    metric.reset_state()
    for y, x, w in zip(targets, outputs, weights, strict=True):
        metric.update_state(torch.tensor(y), torch.tensor(x), None if w is None else torch.tensor(w))
    return metric.result().detach().numpy()


def planned(metric, targets, outputs, weights):
    """The totals are states of a plan, as the trainer has it."""
    graph, (y, x) = Graph(), (targets[0], outputs[0])
    output = graph.input("x", Spec(x.shape))
    target = graph.input("y", Spec(y.shape, str(y.dtype)))
    weight = graph.input("w", Spec((SIZE,)))
    specs = metric.states(output.spec)
    states = {name: graph.state(name, spec) for name, spec in specs.items()}
    with use_interpreter(graph):
        new = metric.update(states, target, output, weight)
    assert set(new) == set(specs)
    arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
    run = make_executor(make_plan(graph, {}, new), cpu(), arrays)
    for y, x, w in zip(targets, outputs, weights, strict=True):
        run({"x": x, "y": y, "w": w})
    return metric.result(arrays)


def at_once(metric, targets, outputs, weights):
    specs = metric.states(Spec(outputs[0].shape))
    states = {name: tensor(np.zeros(spec.shape, spec.dtype)) for name, spec in specs.items()}
    for y, x, w in zip(targets, outputs, weights, strict=True):
        states = metric.update(states, tensor(y), tensor(x), tensor(w))
    return metric.result({name: value.numpy() for name, value in states.items()})


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize(("metric", "theirs", "targets", "outputs"), CASES, ids=IDS)
def test_metric_equals_keras(metric, theirs, targets, outputs, weighted):
    ones = [np.ones(SIZE, np.float32)] * BATCHES
    weights = [f32(RNG.uniform(0.2, 2.0, size=SIZE)) for _ in range(BATCHES)] if weighted else ones
    given = weights if weighted else [None] * BATCHES
    want = by_keras(theirs, targets, outputs, given)
    made, other = (way(metric, targets, outputs, weights) for way in (planned, at_once))
    np.testing.assert_allclose(made, other, rtol=1e-6)  # one set of ops; a plan's kernels may round otherwise
    # Keras adds up in float32: three batches of sixteen
    np.testing.assert_allclose(made, want, rtol=2e-5, atol=2e-6)


def test_names_are_keras():
    for metric, theirs, _, _ in CASES:
        assert metric.name == re.sub(r"_[0-9]+$", "", theirs.name)  # Keras numbers some


def test_every_metric_is_compared():
    here = {M.LossMetric, M.FunctionMetric, M.ConfusionMatrix, M.MeanIoU}  # tested by themselves
    assert {type(case[0]) for case in CASES} | here == set(M.Metric.members().values())
