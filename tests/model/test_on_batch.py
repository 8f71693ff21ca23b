"""Single batches: what is known of a kind of batch is used again, and nothing else of it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((5, 8, 6)).astype("f4"), RNG.integers(0, 3, (5, 8))


def model():
    made = pt.Sequential([pt.Input((6,)), pt.layers.Dense(3)])
    made.compile("sgd", pt.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"], seed=3)
    return made


def kinds(made):
    return made._on_batch_runner._bindings


def test_batches_of_a_kind_are_bound_once_and_trained_each():
    made, other = model(), model()
    for x, y in zip(X, Y, strict=True):
        made.train_on_batch(x, y)
    assert len(kinds(made)) == 1
    other.fit(X.reshape(40, 6), Y.reshape(40), batch_size=8, epochs=1, shuffle=False, validation_split=0, verbose=0)
    assert all((made.weights[k] == other.weights[k]).all() for k in made.weights)


def test_a_batch_of_another_shape_or_type_is_a_kind_of_its_own():
    made = model()
    whole = made.predict_on_batch(X[0])
    np.testing.assert_allclose(made.predict_on_batch(X[0, :3]), whole[:3], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.predict_on_batch(X[0].astype("f8")), whole, rtol=1e-5, atol=1e-6)
    assert len(kinds(made)) == 3


def test_the_values_of_each_batch_are_looked_at():
    made = model()
    made.train_on_batch(X[0], Y[0])
    before = {k: np.array(v) for k, v in made.weights.items()}
    wrong = X[1].copy()
    wrong[4, 2] = np.nan
    with pytest.raises(DataError, match="row 4"):
        made.train_on_batch(wrong, Y[1])
    with pytest.raises(DataError, match="3 classes"):
        made.train_on_batch(X[1], Y[1] + 3)
    with pytest.raises(DataError, match="sample_weight"):
        made.train_on_batch(X[1], Y[1], sample_weight=-np.ones(8))
    assert all((made.weights[k] == v).all() for k, v in before.items())
    made.train_on_batch(X[1], Y[1])
    assert made.trainer.step == 2


def test_no_batch_is_held():
    made = model()
    x = X[0].copy()
    gone = weakref.ref(x)
    made.predict_on_batch(x)
    made.test_on_batch(x, Y[0])
    del x
    gc.collect()
    assert gone() is None


def test_class_weights_belong_to_their_call():
    made = model()
    plain = made.test_on_batch(X[0], Y[0])["loss"]
    assert made.train_on_batch(X[0], Y[0], class_weight={0: 0, 1: 0, 2: 0})["loss"] == 0
    made = model()
    assert made.train_on_batch(X[0], Y[0])["loss"] == pytest.approx(plain, rel=1e-6)


def test_only_so_many_kinds_are_remembered():
    made = model()
    for n in range(1, 30):
        assert made.predict_on_batch(np.zeros((n, 6), "f4")).shape == (n, 3)
    assert len(kinds(made)) == 16


def test_after_compile_nothing_is_known():
    made = model()
    made.train_on_batch(X[0], Y[0])
    made.compile("sgd", pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert not kinds(made)
    assert set(made.train_on_batch(X[0], Y[0]).keys()) == {"loss"}
