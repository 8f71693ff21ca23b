"""A step of an optimizer in a static graph changes nothing where what it trains would not be finite."""

import tracemalloc

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.guarded_updates import GuardedUpdates
from prototorch.errors import TrainingError
from tests.cuda.fake.fake_cuda import use_fake_cuda

FAULTS = {
    "loss": "the loss is nan, which is no finite number; nothing has been changed",
    "gradient": "(a gradient is|the step would make .*'w'.*) not finite; nothing has been changed",
    "update": "would make 'w'.* not finite; nothing has been changed",
}


def graph_with(fault, optimizer, device):
    """A weight, a counter of steps, and a large variable that is assigned by the forward pass alone."""
    x = pt.Input((2,))
    w, count = pt.Variable(np.ones((2, 1), np.float32), name="w"), pt.Variable(0.0, trainable=False, name="count")
    total = pt.Variable(np.zeros((1 << 19,), np.float32), trainable=False, name="total")
    loss = ((x @ w) if fault == "update" else pt.sqrt(x @ w)).sum()
    step = optimizer.minimize(loss, [w])
    graph = pt.Graph(x, loss, [step, count.assign_add(1.0), total.assign(total * 2.0 + x.sum())], device=device)
    return graph, [w, count, total, step.call]


def bits_of(variables):
    *kept, call = variables
    slots = [t.numpy() for own in call.slots.values() for t in own.values()]
    return [np.array(a) for a in (*(v.value for v in kept), *slots)]


@pytest.mark.parametrize("where", ["native", "numpy", "plain", "cuda:0"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_that_is_not_finite_is_refused(fault, optimizer, where, monkeypatch):
    device = where if where == "cuda:0" else None
    if device is None:
        monkeypatch.setenv("PROTOTORCH_CPU", where)
    elif fault == "update":
        pytest.skip("a GPU finds updates that overflow though all gradients are finite when a snapshot is written")
    with use_fake_cuda():
        rate = 3e38 if fault == "update" else 0.1
        rule = pt.optimizers.SGD(rate, momentum=0.9) if optimizer == "SGD" else pt.optimizers.Adam(rate)
        graph, variables = graph_with(fault, rule, device)
        for _ in range(1 if fault == "update" else 4):  # on a device the step is captured by then
            graph(np.full((1, 2), 0.0 if fault == "update" else 1.0, np.float32))
        before = bits_of(variables)
        assert all(np.isfinite(array).all() for array in before)
        bad = {"loss": -1.0, "gradient": 0.0, "update": 100.0}[fault]
        for _ in range(2):
            with pytest.raises(TrainingError, match=FAULTS[fault]):
                graph(np.full((1, 2), bad, np.float32))
            for old, new in zip(before, bits_of(variables), strict=True):
                np.testing.assert_array_equal(new, old)
        good = np.full((1, 2), 0.0 if fault == "update" else 1.0, np.float32)
        assert np.isfinite(graph(good))
        assert variables[1].value == before[1] + 1, "the training goes on"


@pytest.mark.parametrize("level", ["native", "numpy", "plain"])
def test_two_steps_of_which_one_has_no_finite_loss(level, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    x = pt.Input((1,))
    v, w = (pt.Variable(np.ones((1, 1), np.float32), name=name) for name in "vw")
    losses = [(x @ v).sum(), pt.log(x @ w).sum()]
    steps = [pt.optimizers.SGD(0.1).minimize(one, [a]) for one, a in zip(losses, (v, w), strict=True)]
    graph = pt.Graph(x, losses, steps)
    graph(np.ones((1, 1), np.float32))
    before = v.value, w.value
    with pytest.raises(TrainingError, match="the loss is -inf"):
        graph(np.zeros((1, 1), np.float32))
    np.testing.assert_array_equal(v.value, before[0])
    np.testing.assert_array_equal(w.value, before[1])


def large_graph():
    x, w = pt.Input((1024,)), pt.Variable(np.zeros((1024, 1024), np.float32), name="w")
    loss = ((x @ w - 1.0) ** 2).mean()
    graph = pt.Graph(x, loss, [pt.optimizers.Adam(1e-3).minimize(loss)])
    return graph, np.random.default_rng(0).normal(size=(4, 1024)).astype(np.float32), w


def test_no_state_is_copied():
    """A step takes less memory than one of the three arrays of 4 MiB that it changes."""
    graph, x, w = large_graph()
    graph(x), graph(x)
    tracemalloc.start()
    graph(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert np.abs(w.value).max() > 0


def test_states_are_read_for_the_guard_only_after_others_have_changed_them(monkeypatch):
    graph, x, w = large_graph()
    reads = []
    largest_of = GuardedUpdates._largest_state
    monkeypatch.setattr(GuardedUpdates, "_largest_state", lambda self: reads.append(1) or largest_of(self))
    for _ in range(3):
        graph(x)
    assert len(reads) == 1, "before the first step"
    w.value = np.full((1024, 1024), 1e-3, np.float32)
    graph(x)
    assert len(reads) == 2


def test_a_loss_that_is_not_finite_is_refused_where_the_weights_stay_finite():
    x = pt.Input((2,))
    w = pt.Variable(np.ones((2, 1), np.float32), name="w")
    loss = (x @ w).sum() * 0.0 + x.sum().log().detach()
    graph = pt.Graph(x, loss, [pt.optimizers.SGD(0.1).minimize(loss, [w])])
    graph(np.ones((1, 2), np.float32))
    with pytest.raises(TrainingError, match=r"the loss is nan, .* nothing has been changed"):
        graph(np.full((1, 2), -1.0, np.float32))
    np.testing.assert_array_equal(w.value, np.ones((2, 1)))


@pytest.mark.parametrize("level", ["native", "numpy"])
def test_a_trained_variable_is_read_as_it_was_and_the_last_change_counts(level, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    x = pt.Input((1,))
    w, old = pt.Variable(np.ones((1, 1), np.float32), name="w"), pt.Variable(np.zeros((1, 1), np.float32), name="old")
    loss = (x @ w).sum()
    step = pt.optimizers.SGD(0.5).minimize(loss, [w])
    one = np.ones((1, 1), np.float32)
    graph = pt.Graph(x, [loss, w + 0.0, w * 1.0], [step, old.assign(w * 1.0)])
    for expected in (1.0, 0.5):
        assert [float(np.sum(v)) for v in graph(one)] == [expected] * 3
        assert old.value == expected
    assert w.value == 0.0
    pt.Graph(x, loss, [step, w.assign(w * 0.0 + 7.0)])(one)
    assert w.value == 7.0
    pt.Graph(x, loss, [w.assign(w * 0.0 + 3.0), pt.optimizers.SGD(0.5).minimize(loss, [w])])(one)
    assert w.value == 6.5
