"""Batches with fewer samples than others: filled up where nothing changes by it, else prepared beside the training."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers as L
from prototorch import ops
from prototorch.engine.backends.cpu import native
from prototorch.errors import PrototorchError
from prototorch.graph.batch_analysis import BATCHED, MIXED, UNIFORM, analyze_graph
from prototorch.graph.ir import Graph
from prototorch.layers.base import Layer
from prototorch.ops.core import use_interpreter
from prototorch.spec import Spec
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN

CLASSES = "sparse_categorical_crossentropy"
needs_native = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")


class Centred(Layer):
    """Minus the mean over the batch."""

    def call(self, ctx, x):
        return x - ops.mean(x, axis=0, keepdims=True)


class ByBatch(Layer):
    """Divided by the size of the batch."""

    def call(self, ctx, x):
        return x * (1.0 / x.shape[0])


class Noted(Layer):
    """A loss over the whole batch."""

    def call(self, ctx, x):
        ctx.add_loss(ops.mean(ops.square(x)) * 0.01)
        return x


def data(n=50):
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 6, 4), dtype=np.float32), rng.integers(0, 3, n)


def made(monkeypatch, level, *extra, metrics=("accuracy", "mse"), loss=CLASSES):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    model = pt.Sequential([
        pt.Input((6, 4)), L.Conv1D(8, 3, activation="relu"), L.Dropout(0.3), *extra, L.GRU(5), L.Flatten(),
        L.Dense(3, activation="softmax", kernel_regularizer="l2"),
    ])  # fmt: skip
    model.compile("adam", loss, metrics=[m for m in metrics if m != "mse"], seed=4)
    return model


def plans(model, phase):
    return [key for key in model.trainer.plan_cache._executors if key[0] == phase]


@needs_native
def test_filled_batches_give_what_plans_of_their_own_give(monkeypatch):
    x, y = data()
    weight = np.random.default_rng(2).random(50).astype(np.float32)
    held = {}
    for level in ("native", "plain"):
        model = made(monkeypatch, level)
        history = model.fit(
            x, y, sample_weight=weight, batch_size=16, epochs=3, verbose=0, validation_data=data(21)
        ).history
        held[level] = history, model.get_weights(), model.evaluate(x, y, batch_size=16), model.predict(x, batch_size=16)
        assert len(plans(model, TRAIN)) == 2  # 2 of 16 are fewer than a quarter
        assert len(plans(model, PREDICT)) == (2 if level == "plain" else 1)
        assert held[level][3].shape == (50, 3)
    (h, w, e, p), (h2, w2, e2, p2) = held["native"], held["plain"]
    for name, values in h2.items():  # float32 sums in another order, over twelve steps of Adam
        np.testing.assert_allclose(h[name], values, rtol=2e-4, err_msg=name)
    for name, array in w2.items():
        np.testing.assert_allclose(w[name], array, rtol=2e-3, atol=2e-4, err_msg=name)
    assert e == pytest.approx(e2, rel=2e-4)
    np.testing.assert_allclose(p, p2, rtol=2e-3, atol=2e-4)


@needs_native
def test_one_plan_trains_evaluates_and_predicts_whole_and_smaller_batches(monkeypatch):
    x, y = data(40)
    model = made(monkeypatch, "native")
    model.fit(x, y, batch_size=16, epochs=2, verbose=0)
    model.evaluate(x, y, batch_size=16)
    model.predict(x, batch_size=16)
    assert [len(plans(model, phase)) for phase in (TRAIN, TEST, PREDICT)] == [1, 1, 1]
    model.predict(x[:8], batch_size=16)  # there is no whole batch that it could be filled up to
    assert len(plans(model, PREDICT)) == 2


@needs_native
def test_a_filled_step_is_the_same_whatever_fills_it(monkeypatch):
    x, y = data(40)
    found = []
    for _ in range(2):
        model = made(monkeypatch, "native")
        found.append((model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"], model.get_weights()))
    assert found[0][0] == found[1][0]
    assert all(np.array_equal(a, found[1][1][name]) for name, a in found[0][1].items())


@needs_native
@pytest.mark.filterwarnings("ignore:.*the values of the input:prototorch.data.DataWarning")
def test_a_sample_that_breaks_a_filled_step_is_named(monkeypatch):
    x, y = data(40)
    model = made(monkeypatch, "native")
    x[35] = 3e38
    with pytest.raises(PrototorchError, match=r"1 of 8 samples: 35"):
        model.fit(x, y, batch_size=16, epochs=1, verbose=0, shuffle=False)


@pytest.mark.parametrize(("extra", "train", "predict"), [
    ((), True, True),
    ((L.BatchNormalization(),), False, True),
    ((L.LayerNormalization(),), True, True),
    ((L.GaussianNoise(0.1),), False, True),
    ((Centred(),), False, False),
    ((ByBatch(),), False, False),
    ((Noted(),), False, True),
])  # fmt: skip
def test_which_nets_see_samples_side_by_side(monkeypatch, extra, train, predict):
    program = made(monkeypatch, "plain", *extra).trainer.plan_cache
    specs = {program.net.inputs[0].name: Spec((16, 6, 4))}
    assert program.can_pad(TRAIN, specs) is train
    assert program.can_pad(PREDICT, specs) is predict
    assert program.can_pad(TEST, specs) is (predict and not any(isinstance(e, Noted) for e in extra))


def test_a_loss_that_scales_by_what_counts_in_the_batch_is_not_filled_up(monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", "plain")
    model = pt.Sequential([pt.Input((5, 3)), L.Masking(), L.LSTM(4, return_sequences=True)])
    model.compile("sgd", "mse")
    specs = model.input_specs(8)
    assert not model.trainer.plan_cache.can_pad(TRAIN, specs)
    assert model.trainer.plan_cache.can_pad(PREDICT, specs)


def test_how_values_depend_on_the_samples():
    graph = Graph()
    x, w = graph.input("x", Spec((8, 4))), graph.state("w", Spec((4, 8)))
    with use_interpreter(graph):
        zeros = ops.full(shape=(8, 8), value=0.0)
        rows = {
            "product": x @ w, "pieces": ops.reshape(x, shape=(16, 2)), "sum": ops.sum(x, axis=1),
            "filled": x @ w + zeros,
        }  # fmt: skip
        mixed = {
            "turned": ops.transpose(x, order=(1, 0)), "total": ops.sum(x), "product": w @ x,
            "cut": x[2:], "back": x[::-1],
            "by place": ops.reshape(x, shape=(4, 8)) , "weights by row": x @ w + ops.transpose(w, order=(1, 0)) @ w,
        }  # fmt: skip
    found = analyze_graph(graph, 8)
    assert {k: found[v] for k, v in rows.items()} == dict.fromkeys(rows, BATCHED)
    assert {k: found[v] for k, v in mixed.items()} == dict.fromkeys(mixed, MIXED)
    assert found[zeros] == UNIFORM


@needs_native
def test_a_batch_that_cannot_be_filled_up_is_prepared_beside_the_first_steps(monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    x, y = data(40)
    found = []
    for beside in (True, False):
        model = made(monkeypatch, "native", L.BatchNormalization())
        asked = []
        program = model.trainer.plan_cache
        kept = program.precompile
        work = (lambda *a, kept=kept: kept(*a)) if beside else lambda *a: None
        monkeypatch.setattr(program, "precompile", lambda *a, asked=asked, work=work: (asked.append(a[:2]), work(*a)))
        losses = model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"]
        assert [(phase, spec.shape) for phase, specs in asked for spec in specs.values()] == [(TRAIN, (8, 6, 4))]
        assert not program._precompiled, "what was made ahead is taken"
        found.append((losses, model.get_weights()))
    assert found[0][0] == found[1][0]
    assert all(np.array_equal(a, found[1][1][name]) for name, a in found[0][1].items())


@needs_native
def test_what_fails_beside_the_training_is_told_where_it_is_needed(monkeypatch):
    x, y = data(40)
    model = made(monkeypatch, "native", L.BatchNormalization())
    program = model.trainer.plan_cache

    def fail(*args):
        raise MemoryError

    monkeypatch.setattr(program, "precompile", fail)
    assert np.isfinite(model.fit(x, y, batch_size=16, epochs=1, verbose=0).history["loss"][0])


@needs_native
def test_what_is_there_is_not_prepared_again(monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    x, y = data(40)
    model = made(monkeypatch, "native", L.BatchNormalization())
    model.fit(x, y, batch_size=16, verbose=0)

    begun = []

    def refused(*args, **kwargs):
        begun.append(args)
        raise OSError

    monkeypatch.setattr("prototorch.engine.backends.cpu.native.compile_workers.subprocess.Popen", refused)
    monkeypatch.setattr(model.trainer.plan_cache, "_make_plan", refused)
    assert len(model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"]) == 2
    again = made(monkeypatch, "native", L.BatchNormalization())  # its kernels are known: none is compiled beside
    assert len(again.fit(x, y, batch_size=16, verbose=0).history["loss"]) == 1
    assert not begun
