"""Every regularizer equals Keras': its penalty, and what it does to the loss and the weights of a training."""

import keras
import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import regularizers as R
from prototorch.regularizers import Regularizer

K = keras.regularizers
CASES = [
    (R.L1(0.02), K.L1(0.02)),
    (R.L2(0.03), K.L2(0.03)),
    (R.L1L2(0.02, 0.05), K.L1L2(0.02, 0.05)),
    (R.OrthogonalRegularizer(0.1), K.OrthogonalRegularizer(0.1)),
    (R.OrthogonalRegularizer(0.1, mode="columns"), K.OrthogonalRegularizer(0.1, mode="columns")),
]
each_case = pytest.mark.parametrize(("ours", "theirs"), CASES, ids=[repr(ours) for ours, _ in CASES])


def test_every_regularizer_is_compared():
    assert {type(ours) for ours, _ in CASES} == set(Regularizer.members().values())


@each_case
def test_penalty_equals_keras(ours, theirs):
    weight = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    np.testing.assert_allclose(ours.penalty(pt.tensor(weight)).numpy(), float(theirs(torch.tensor(weight))), rtol=1e-6)


@each_case
def test_training_equals_keras(ours, theirs):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 6)).astype(np.float32), rng.normal(size=(12, 5)).astype(np.float32)
    model = pt.Sequential([pt.Input((6,)), pt.layers.Dense(5, kernel_regularizer=ours, name="d")])
    model.compile(pt.optimizers.SGD(0.1), "mse")
    peer = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, kernel_regularizer=theirs)])
    peer.compile(keras.optimizers.SGD(0.1), "mse")
    peer.layers[0].kernel.assign(model.weights["d/kernel"].copy())
    options = {"batch_size": 4, "epochs": 3, "shuffle": False, "verbose": 0}
    losses = model.fit(x, y, **options).history["loss"]
    np.testing.assert_allclose(losses, peer.fit(x, y, **options).history["loss"], rtol=1e-4)
    expected = peer.layers[0].kernel.value.detach().numpy()
    np.testing.assert_allclose(model.weights["d/kernel"], expected, rtol=1e-4, atol=1e-6)
