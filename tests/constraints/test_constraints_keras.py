"""Every constraint equals Keras', by itself and in training, where it is applied after each update."""

import keras
import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import constraints as C
from prototorch.constraints import Constraint
from prototorch.errors import UsageError

K = keras.constraints


class Clip(K.Constraint):
    """As Keras' examples of Wasserstein GANs write it; Keras has none."""

    def __call__(self, w):
        return keras.ops.clip(w, -0.2, 0.3)


CASES = [
    (C.NonNeg(), K.NonNeg()),
    (C.ClipValue(-0.2, 0.3), Clip()),
    (C.MaxNorm(0.7), K.MaxNorm(0.7)),
    (C.MaxNorm(0.7, axis=(1,)), K.MaxNorm(0.7, axis=1)),
    (C.UnitNorm(), K.UnitNorm()),
    (C.UnitNorm(axis=(0, 1)), K.UnitNorm(axis=[0, 1])),
    (C.MinMaxNorm(0.5, 0.8), K.MinMaxNorm(0.5, 0.8)),
    (C.MinMaxNorm(0.5, 0.8, rate=0.3, axis=(1,)), K.MinMaxNorm(0.5, 0.8, rate=0.3, axis=1)),
]
each_case = pytest.mark.parametrize(("ours", "theirs"), CASES, ids=[repr(ours) for ours, _ in CASES])


def test_every_constraint_is_compared():
    assert {type(ours) for ours, _ in CASES} == set(Constraint.members().values())


@each_case
def test_projection_equals_keras(ours, theirs):
    weight = np.random.default_rng(0).normal(0, 0.4, (6, 5)).astype(np.float32)  # column norms around 1: both sides
    weight[:, 2] *= 0.1
    projected = np.asarray(ours.project(pt.tensor(weight)).numpy())
    np.testing.assert_allclose(projected, theirs(torch.tensor(weight)).detach().numpy(), rtol=1e-6, atol=1e-7)
    assert not np.array_equal(projected, weight)


@each_case
def test_a_constraint_holds_after_each_step(ours, theirs):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 6)).astype(np.float32), rng.normal(size=(12, 5)).astype(np.float32)
    model = pt.Sequential([pt.Input((6,)), pt.layers.Dense(5, kernel_constraint=ours, name="d")])
    model.compile(pt.optimizers.SGD(0.3), "mse")
    weights = model.weights["d/kernel"].copy()
    peer = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, kernel_constraint=theirs)])
    peer.compile(keras.optimizers.SGD(0.3), "mse")
    peer.layers[0].kernel.assign(weights)
    options = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
    model.fit(x, y, **options)
    peer.fit(x, y, **options)
    expected = peer.layers[0].kernel.value.detach().numpy()
    np.testing.assert_allclose(model.weights["d/kernel"], expected, rtol=1e-4, atol=1e-6)


def test_a_constraint_that_keras_does_not_have_is_refused_by_its_files(tmp_path):
    model = pt.Sequential([pt.Input((6,)), pt.layers.Dense(5, kernel_constraint=C.ClipValue(-1, 1), name="d")])
    with pytest.raises(UsageError, match="kernel_constraint: Keras has no constraint ClipValue"):
        model.export(tmp_path / "m.keras")
    assert not list(tmp_path.iterdir())
