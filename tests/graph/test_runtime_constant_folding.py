"""Batch normalisation in a convolution's weights, and what follows from the states alone is computed once."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT
from tests.graph.fusing import LAID, LEVEL, names, predict, specs_of, train

FUSING, LAYING, PLAIN = (Backend("", np, levels) for levels in ((LEVEL,), (LAID,), ()))
CONV = {"strides": (1, 1), "pads": ((1, 1), (1, 1)), "dilation": (1, 1)}
VECTORS = ("gamma", "beta", "mean", "variance")


def net(bias=False, groups=1, twice=False):
    """A convolution and a batch normalisation, with states for it."""
    graph, rng = Graph(), np.random.default_rng(0)
    states = {k: rng.uniform(0.5, 2.0, 6).astype(np.float32) for k in (*VECTORS, "bias")}
    states["w"] = rng.standard_normal((6, 4 // groups, 3, 3)).astype(np.float32)
    x = graph.input("x", Spec((2, 4, 5, 5)))
    made = {k: graph.state(k, Spec(a.shape)) for k, a in states.items()}
    y = ops.conv(x, made["w"], groups=groups, **CONV)
    if bias:
        y = y + ops.reshape(made["bias"], shape=(1, 6, 1, 1))
    normal = ops.batch_norm_inference(y, *(made[k] for k in VECTORS), eps=1e-3)
    out = {"y": ops.relu(normal), **({"also": ops.sum(y)} if twice else {})}
    if not bias:
        del states["bias"]
    return graph, out, states, {"x": rng.standard_normal((2, 4, 5, 5)).astype(np.float32)}


def variables(states):
    made = Variables()
    for name, array in states.items():
        made.create(name, array)
    return made


@pytest.mark.parametrize("backend", [FUSING, LAYING], ids=["fusing", "laying"])
@pytest.mark.parametrize(("bias", "groups"), [(False, 1), (True, 1), (False, 2)])
def test_batch_norm_becomes_part_of_the_weights(bias, groups, backend):
    graph, out, states, given = net(bias, groups)
    plan = make_plan(graph, out, None, backend)
    assert [n for n in names(plan) if n != "reorder"][-1] == "conv+add+relu"
    assert all(s.node.phase == "setup" for s in plan.steps if s.node.op not in (ops.fused, ops.reorder))
    got = make_executor(plan, backend, variables(states))(given)["y"]
    wanted = make_executor(make_plan(graph, out, None, PLAIN), PLAIN, states)(given)["y"]
    # weights of size 1, 36 products: a place or two of float32
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_batch_norm_stays_where_somebody_else_reads_the_convolution():
    graph, out, _, _ = net(twice=True)
    assert names(make_plan(graph, out, None, FUSING)) == ["conv", "batch_norm_inference", "relu", "sum"]


def test_a_net_without_its_batch_norms():
    model = pt.load_model("resnet18", classes=10)
    net_ = model.net
    shared = Variables()
    one, other = (PlanCache(net_, shared, b, model.compile_block) for b in (PLAIN, LAYING))
    specs = specs_of(one, 2, 64)
    train(one, specs, 1, classes=10)  # statistics that are not those of the beginning
    wanted, got = predict(one, specs)["logits"], predict(other, specs)["logits"]
    # 20 layers deep, each with its rounding
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    plan = other.plan(PREDICT, specs)
    assert not any("batch_norm" in name for name in names(plan))
    assert plan.setup_steps > 20
    assert plan.persistent_bytes > 11_000_000 * 4


def counted(states):
    """A runner of y = relu(x * (w * w)) that tells how often the part of w alone was computed."""
    graph = Graph()
    x, w = graph.input("x", Spec((3,))), graph.state("w", Spec((3,)))
    other = graph.state("other", Spec((3,)))
    plan = make_plan(graph, {"y": ops.relu(x * ops.tanh(w * w))}, {"other": other + x}, FUSING)
    runner = make_executor(plan, FUSING, states)
    times = []
    runner._setup = [lambda calls=runner._setup: (times.append(1), [call() for call in calls])]
    assert [s.node.phase for s in plan.steps][: plan.setup_steps] == ["setup"]
    assert plan.dependencies == ("w",)
    return (lambda: np.array(runner({"x": np.ones(3, np.float32)})["y"])), times


def fresh():
    made = Variables()
    made.create("w", np.full(3, 0.5, np.float32))
    made.create("other", np.zeros(3, np.float32))
    return made


def test_it_is_computed_once():
    run, times = counted(fresh())
    for _ in range(4):
        assert np.allclose(run(), np.tanh(0.25))
    assert len(times) == 1


def test_and_again_after_an_assignment():
    states = fresh()
    run, times = counted(states)
    run()
    states.assign("w", np.ones(3, np.float32))
    assert np.allclose(run(), np.tanh(1.0))
    states["w"][...] = 2
    assert np.allclose(run(), np.tanh(4.0))
    run()
    assert len(times) == 3


def test_other_arrays_may_change():
    states = fresh()
    run, times = counted(states)
    for _ in range(3):
        run()
        states["other"][...] = 5
    assert len(times) == 1


@pytest.mark.parametrize("hold", [lambda a: a, lambda a: a[:2], lambda a: a[1:][:1], memoryview], ids=range(4))
def test_an_array_that_somebody_holds_may_change_at_any_time(hold):
    states = fresh()
    run, times = counted(states)
    held = hold(states["w"])
    run()
    np.asarray(held)[...] = 3
    run()
    assert np.allclose(run()[1], np.tanh(9.0))
    assert len(times) == 3
    del held
    run()
    run()
    assert len(times) == 4


def test_a_second_runner_is_nobody_else_and_one_that_is_gone_leaves_no_trace():
    states = fresh()
    run, times = counted(states)
    more, others = counted(states)
    for _ in range(3):
        run(), more()
    assert len(times) + len(others) == 1  # the second one finds what the first has filled
    del more
    held = states["w"]
    run(), run()
    assert len(times) == 3
    del held


def test_a_training_step_counts_as_a_change():
    states = fresh()
    graph = Graph()
    w = graph.state("w", Spec((3,)))
    writing = make_executor(make_plan(graph, {}, {"w": w + 1.0}, FUSING), FUSING, states)
    run, times = counted(states)
    run(), run()
    writing({})
    assert np.allclose(run(), np.tanh(2.25))
    assert len(times) == 2


def test_states_of_a_plain_dict_are_trusted_with_nothing():
    states = dict(fresh().items())
    run, times = counted(states)
    run(), run()
    assert len(times) == 2


def test_what_is_wanted_itself_is_not_kept():
    graph = Graph()
    w = graph.state("w", Spec((2, 3)))
    out = {"flat": ops.reshape(ops.tanh(w), shape=(6,)), "sum": ops.sum(ops.exp(w))}
    plan = make_plan(graph, out, None, FUSING)
    runner = make_executor(plan, FUSING, variables({"w": np.ones((2, 3), np.float32)}))
    runner({})["flat"][...] = 9
    assert np.allclose(runner({})["flat"], np.tanh(1))
    assert plan.persistent_bytes == 64
