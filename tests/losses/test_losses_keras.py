"""Every loss equals Keras' on the same data: values, and gradients by PyTorch's own differentiation; plan = tape."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest
import torch

from prototorch import grad, ops, tensor
from prototorch import losses as L
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

K = keras.losses
RNG = np.random.default_rng(20260401)


def f32(array):
    return np.asarray(array, np.float32)


def real(*shape):
    return f32(RNG.normal(size=shape))


def positive(*shape):
    return f32(RNG.uniform(0.05, 2.0, size=shape))


def chance(*shape):
    return f32(RNG.uniform(0.02, 0.98, size=shape))


def shares(*shape):
    p = RNG.uniform(0.05, 1.0, size=shape)
    return f32(p / p.sum(-1, keepdims=True))


def labels(classes, *shape):
    return RNG.integers(0, classes, size=shape)


def one_hot(classes, *shape):
    return f32(np.eye(classes)[labels(classes, *shape)])


def bits(*shape):
    return f32(RNG.integers(0, 2, size=shape))


CASES = [
    (L.MeanSquaredError(), K.MeanSquaredError(), real(6, 3), real(6, 3)),
    (L.MeanSquaredError(), K.MeanSquaredError(), real(6, 4, 3), real(6, 4, 3)),
    (L.MeanAbsoluteError(), K.MeanAbsoluteError(), real(6, 3), real(6, 3)),
    (L.MeanAbsolutePercentageError(), K.MeanAbsolutePercentageError(), real(6, 3) + 0.5, real(6, 3)),
    (L.MeanSquaredLogarithmicError(), K.MeanSquaredLogarithmicError(), positive(6, 3), positive(6, 3)),
    (L.Huber(), K.Huber(), real(8, 3) * 2, real(8, 3)),
    (L.Huber(delta=0.5), K.Huber(delta=0.5), real(8, 4, 3), real(8, 4, 3)),
    (L.LogCosh(), K.LogCosh(), real(6, 3) * 3, real(6, 3)),
    (L.Poisson(), K.Poisson(), positive(6, 3), positive(6, 3)),
    (L.CosineSimilarity(), K.CosineSimilarity(), real(6, 3), real(6, 3)),
    (L.CosineSimilarity(axis=1), K.CosineSimilarity(axis=1), real(6, 4, 3), real(6, 4, 3)),
    (L.Hinge(), K.Hinge(), bits(6, 3), real(6, 3)),
    (L.Hinge(), K.Hinge(), bits(6, 3) * 2 - 1, real(6, 3)),
    (L.SquaredHinge(), K.SquaredHinge(), bits(6, 3), real(6, 3)),
    (L.CategoricalHinge(), K.CategoricalHinge(), one_hot(5, 6), real(6, 5)),
    (L.KLDivergence(), K.KLDivergence(), shares(6, 5), shares(6, 5)),
    (L.BinaryCrossentropy(), K.BinaryCrossentropy(), bits(6, 3), chance(6, 3)),
    (L.BinaryCrossentropy(label_smoothing=0.2), K.BinaryCrossentropy(label_smoothing=0.2), bits(6, 3), chance(6, 3)),
    (L.BinaryCrossentropy(from_logits=True), K.BinaryCrossentropy(from_logits=True), bits(6, 3), real(6, 3) * 4),
    (L.CategoricalCrossentropy(), K.CategoricalCrossentropy(), one_hot(5, 6), shares(6, 5)),
    (L.CategoricalCrossentropy(), K.CategoricalCrossentropy(), shares(6, 5), positive(6, 5)),
    (
        L.CategoricalCrossentropy(True, label_smoothing=0.1),
        K.CategoricalCrossentropy(True, label_smoothing=0.1),
        one_hot(5, 6, 4),
        real(6, 4, 5),
    ),
    (L.SparseCategoricalCrossentropy(), K.SparseCategoricalCrossentropy(), labels(5, 6), shares(6, 5)),
    (L.SparseCategoricalCrossentropy(True), K.SparseCategoricalCrossentropy(True), labels(5, 6), real(6, 5) * 5),
    (L.SparseCategoricalCrossentropy(True), K.SparseCategoricalCrossentropy(True), labels(5, 6, 1), real(6, 5)),
    (L.SparseCategoricalCrossentropy(True), K.SparseCategoricalCrossentropy(True), labels(5, 6, 4), real(6, 4, 5)),
    (
        L.SparseCategoricalCrossentropy(True, axis=1),
        K.SparseCategoricalCrossentropy(True, axis=1),
        labels(5, 6, 4, 3),
        real(6, 5, 4, 3),
    ),
    (
        L.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2),
        K.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2),
        labels(5, 6, 4),
        real(6, 4, 5),
    ),
    (
        L.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
        K.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
        labels(6, 6, 4) - 1,
        real(6, 4, 5),
    ),
]
IDS = [f"{i}-{case[0]!r}" for i, case in enumerate(CASES)]


def test_every_loss_is_compared():
    others = {L.ContrastiveLoss, L.FunctionLoss, L.MeanOutput}  # with tests of their own
    assert {type(case[0]) for case in CASES} | others == set(L.Loss.members().values())


def by_keras(loss, target, output, weight):
    x = torch.tensor(output, requires_grad=True)
    y = torch.tensor(target)
    if weight is not None:  # Keras multiplies [batch, ...] losses, and wants weights of that shape
        shape = tuple(loss.call(y, x).shape)
        weight = torch.tensor(weight.reshape(-1, *[1] * (len(shape) - 1))).expand(shape).clone()
    value = loss(y, x, sample_weight=weight)
    value.backward()
    return float(value.detach()), x.grad.numpy()


def on_tape(loss, target, output, weight):
    x = tensor(output, requires_grad=True)
    each = loss.per_sample_loss(tensor(target), x)
    assert each.shape == (len(output),)
    total = ops.sum(each * tensor(weight)) * (1.0 / len(output))
    return total.item(), grad(total, [x])[0].numpy()


def planned(loss, target, output, weight):
    """As the trainer does it: the target has the spec that the loss asks for."""
    graph = Graph()
    x = graph.input("x", Spec(output.shape, str(output.dtype)))
    y = graph.input("y", loss.target_spec(x.spec))
    w = graph.input("w", Spec((len(output),), str(output.dtype)))
    with use_interpreter(graph):
        total = ops.sum(loss.per_sample_loss(y, x) * w) * (1.0 / len(output))
        (g,) = backward_pass(list(graph.nodes), [(total, graph.constant(np.ones((), output.dtype)))], [x])
    run = make_executor(make_plan(graph, {"loss": total, "grad": g}), cpu(), {})
    made = run({"x": output, "y": target.reshape(y.shape), "w": weight})
    return float(made["loss"]), np.array(made["grad"])


# float32 rounding: a handful of operations on numbers of size 1, relative to the largest element
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize(("loss", "theirs", "target", "output"), CASES, ids=IDS)
def test_loss_equals_keras(loss, theirs, target, output, weighted):
    weight = f32(np.linspace(0.2, 2.0, len(output))) if weighted else np.ones(len(output), np.float32)
    want, want_grad = by_keras(theirs, target, output, weight if weighted else None)
    for way in (on_tape, planned):
        value, gradient = way(loss, target, output, weight)
        np.testing.assert_allclose(value, want, **CLOSE)
        scale = max(np.abs(want_grad).max(), 1e-3)
        np.testing.assert_allclose(gradient / scale, want_grad / scale, **CLOSE)
