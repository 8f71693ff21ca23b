"""What follows from the states alone lies in memory that plans share, and that training gives back."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers as L
from prototorch.engine.backends.cpu import native
from prototorch.train.step_inputs import PREDICT, TEST

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 3, 9, 9), dtype=np.float32), RNG.integers(0, 4, 12)


def net(monkeypatch, memory="normal", level="native"):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    model = pt.Sequential([
        pt.Input((3, 9, 9)), L.Conv2D(8, 3, activation="relu"), L.BatchNormalization(), L.Conv2D(16, 3, strides=2),
        L.DepthwiseConv2D(3), L.Flatten(), L.Dense(4),
    ])  # fmt: skip
    model.compile("sgd", pt.losses.SparseCategoricalCrossentropy(from_logits=True), memory=memory)
    model.build()
    return model


def held(model):
    return model.variables.constant_cache.tensors()


def test_batch_sizes_and_evaluation_share_what_they_keep(monkeypatch):
    model = net(monkeypatch)
    model.predict(X, batch_size=12)
    first = {id(one) for one in held(model)}
    assert first
    model.predict(X[:4], batch_size=4)
    model.evaluate(X, Y, batch_size=12)
    assert {id(one) for one in held(model)} == first
    runners = [r for (phase, _), r in model.trainer.plan_cache._executors.items() if phase in (PREDICT, TEST)]
    assert len(runners) == 3
    assert all({id(one) for one in r._states.tensors.values()} == first for r in runners)


def test_what_another_plan_has_filled_is_not_computed_again(monkeypatch):
    model = net(monkeypatch)
    wanted = model.predict(X, batch_size=12)[:4]
    small = model.trainer.plan_cache.executor(PREDICT, model.input_specs(4))
    monkeypatch.setattr(small, "_setup", [lambda: pytest.fail("computed again")])
    got = model.predict(X[:4], batch_size=4)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)  # products of another number of rows


def test_training_gives_it_back_and_predictions_fill_it_again(monkeypatch):
    model, other = net(monkeypatch), net(monkeypatch, level="plain")
    for _ in range(2):
        model.predict(X, batch_size=12)
        assert all(one.version is not None and one.array.any() for one in held(model))
        for one in (model, other):
            one.fit(X, Y, batch_size=12, epochs=1, verbose=0, shuffle=False)
        assert all(one.version is None and not one.array.any() for one in held(model))
        # a step of training in float32, and its rounding through batch statistics
        np.testing.assert_allclose(
            model.predict(X, batch_size=12), other.predict(X, batch_size=12), rtol=1e-3, atol=1e-4
        )


def test_assigned_weights_are_arranged_again_for_every_plan(monkeypatch):
    model, other = net(monkeypatch), net(monkeypatch, level="plain")
    model.predict(X, batch_size=12), model.predict(X[:4], batch_size=4)
    for one in (model, other):
        one.set_weights({name: array * 0.5 for name, array in one.get_weights().items()})
    for count in (4, 12):
        got, wanted = (one.predict(X[:count], batch_size=count) for one in (model, other))
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)


def test_a_plan_that_is_gone_keeps_nothing(monkeypatch):
    model = net(monkeypatch)
    model.predict(X, batch_size=6)  # of several batches: a single one keeps its binding for the next
    model.trainer.plan_cache._executors.clear()
    assert not held(model)


def test_little_memory_arranges_in_each_run(monkeypatch):
    model, low = net(monkeypatch), net(monkeypatch, "low")
    a, b = (one.predict(X, batch_size=12) for one in (model, low))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    plans = [one.trainer.plan_cache.plan(PREDICT, one.input_specs(12)) for one in (model, low)]
    assert any(s.node.op.name == "prepack" for s in plans[0].steps)
    assert not any(s.node.op.name == "prepack" for s in plans[1].steps)
    assert plans[1].persistent_bytes < plans[0].persistent_bytes
