"""Large batches go through a plan slice by slice where activations would leave the caches; the numbers are the same."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.backends.cpu import cpu, native
from prototorch.graph.cost import estimate_cost
from prototorch.graph.ir import Graph
from prototorch.graph.liveness import Liveness
from prototorch.graph.passes.batch_tiling import tile_batch
from prototorch.graph.passes.context import PassContext
from prototorch.graph.plan import make_plan
from prototorch.graph.plan_printer import describe_plan
from prototorch.graph.verify import verify
from prototorch.runtime.executor import make_executor
from prototorch.runtime.plan_timing import time_plan
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import step_specs

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native level here")

BATCH = 12
SAME, NONE = ((1, 1), (1, 1)), ((0, 0), (0, 0))


class Said:
    """A graph with its weights, for random inputs."""

    def __init__(self):
        self.graph, self.states, self.given = Graph(), {}, {}
        self.rng = np.random.default_rng(0)

    def x(self, *shape):
        name = f"x{len(self.given)}"
        self.given[name] = self.rng.normal(size=(BATCH, *shape)).astype("float32")
        return self.graph.input(name, Spec((BATCH, *shape)))

    def w(self, *shape):
        name = f"w{len(self.states)}"
        self.states[name] = self.rng.normal(size=shape).astype("float32") / 4
        return self.graph.state(name, Spec(shape))

    def conv(self, x, filters, kernel=3, groups=1):
        pads = SAME if kernel == 3 else NONE
        w = self.w(filters, x.shape[1] // groups, kernel, kernel)
        return ops.conv(x, w, strides=(1, 1), pads=pads, dilation=(1, 1), groups=groups)


def branches():
    """Convolutions, a residual, two branches side by side, an output in the middle and one that is a view."""
    s = Said()
    y = ops.relu(s.conv(s.x(3, 16, 16), 16) + s.w(16, 1, 1))
    y = y + s.conv(y, 16, groups=16)
    pooled, _ = ops.max_pool(y, kernel=(3, 3), strides=(1, 1), pads=SAME)
    y = ops.concat(ops.tanh(s.conv(y, 8, 1)), pooled, axis=1)
    y = ops.avg_pool(y, kernel=(2, 2), strides=(2, 2), pads=NONE)
    flat = ops.reshape(y, shape=(BATCH, 24 * 64))
    return s, {"y": ops.softmax(flat @ s.w(24 * 64, 5), axis=-1), "flat": flat, "pooled": pooled}


def words():
    """Attention over sequences: between reshapes the batch's axis is one with that of the places."""
    s = Said()
    x = s.x(10, 8)
    flat = ops.reshape(x, shape=(BATCH * 10, 8))
    q, k, v = (ops.reshape(flat @ s.w(8, 8) + s.w(8), shape=(BATCH, 10, 2, 4)) for _ in range(3))
    y = ops.reshape(ops.attention_heads(q, k, v), shape=(BATCH * 10, 8)) @ s.w(8, 8)
    y = ops.layer_norm(x + ops.reshape(y, shape=(BATCH, 10, 8)), s.w(8), s.w(8), axis=-1, eps=1e-3)
    return s, {"y": ops.mean(y, axis=1), "each": ops.transpose(y, order=(0, 2, 1))}


def statistics():
    """A mean over the batch in the middle: only what is before it and behind it can be cut."""
    s = Said()
    y = ops.tanh(s.conv(s.x(4, 9, 9), 8))
    y = y - ops.mean(y, axis=0, keepdims=True)
    return s, {"y": ops.relu(s.conv(y, 4))}


def two():
    """Two inputs; the second comes late, so that its slices are taken from the input's own memory."""
    s = Said()
    y = ops.relu(s.conv(s.x(4, 9, 9), 8))
    return s, {"y": s.conv(y, 8, 1) * s.x(8, 9, 9)}


CASES = {"branches": branches, "words": words, "statistics": statistics, "two inputs": two}


def planned(s, outputs, near):
    backend = cpu("native")
    backend.cache_bytes = near
    plan = make_plan(s.graph, outputs, backend=backend)
    return plan, make_executor(plan, backend, s.states)


def loops(plan):
    return {step.node.loop for step in plan.steps if step.node.loop is not None}


@pytest.fixture(autouse=True)
def _calls_are_free(monkeypatch):
    monkeypatch.setattr(
        "prototorch.graph.passes.batch_tiling._STEP_OVERHEAD", 0
    )  # else nets as small as these stay whole


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("near", [1, 3, 8])
def test_the_same_numbers_in_less_memory(case, near):
    s, outputs = CASES[case]()
    whole, run = planned(s, outputs, 0)
    want = {name: np.array(a) for name, a in run(s.given).items()}
    sizes = [sum(v.spec.nbytes for v in (*step.inputs, *step.outputs)) // BATCH for step in whole.steps]
    plan, again = planned(s, outputs, near * max(sizes))
    assert not loops(whole)
    assert loops(plan) or near == 8
    for _ in range(2):
        for name, got in again(s.given).items():
            # sums may be cut otherwise for another number of rows: some places of float32
            np.testing.assert_allclose(got, want[name], rtol=1e-5, atol=1e-5)
    assert plan.arena_bytes <= whole.arena_bytes
    assert (plan.arena_bytes < whole.arena_bytes) or case != "branches" or near > 1
    flops = [
        sum(
            estimate_cost(
                t.node.op, tuple(v.spec for v in t.inputs), tuple(v.spec for v in t.outputs), t.node.attrs
            ).flops
            * (t.node.loop.trip_count if t.node.loop else 1)
            for t in p.steps
        )
        for p in (whole, plan)
    ]
    assert flops[0] == flops[1]


def test_what_a_loop_reads_is_live_through_all_of_its_trips():
    """Each trip reads another slice of it: its memory is nobody else's before the last trip has ended."""
    s = Said()
    x, key = s.x(4, 9, 9), s.graph.input("random_key", Spec((2,), "uint64"))
    y = ops.dropout(x, key, rate=0.5, site=1)  # not in the loop
    s.graph.set_results({"y": s.conv(ops.tanh(s.conv(y, 8)), 8)}, {})
    backend = cpu("native")
    backend.cache_bytes = 12_000
    assert tile_batch(s.graph, PassContext(backend))
    liveness = Liveness(s.graph.nodes, s.graph.results)
    assert [step.node.op.name for step in liveness.steps if step.node.loop] == ["conv", "tanh", "conv"]
    assert liveness.last_use[liveness.storage(y)] == 3


def test_what_goes_through_the_batch_is_not_cut():
    s, outputs = statistics()
    plan, _ = planned(s, outputs, 1000)
    mean = next(step for step in plan.steps if step.node.op.name == "mean")
    assert mean.node.loop is None
    assert mean.inputs[0].shape[0] == BATCH


def test_random_numbers_are_not_drawn_twice():
    s = Said()
    x, key = s.x(4, 9, 9), s.graph.input("random_key", Spec((2,), "uint64"))
    y = ops.dropout(ops.relu(s.conv(x, 8)), key, rate=0.5, site=1)
    s.graph.set_results({"y": y}, {})
    backend = cpu("native")
    backend.cache_bytes = 12_000
    assert tile_batch(s.graph, PassContext(backend))
    verify(s.graph)
    assert any(node.loop for node in s.graph)
    assert all(node.loop is None for node in s.graph if node.op.name == "dropout")


def test_small_batches_and_small_nets_stay_whole(monkeypatch):
    monkeypatch.undo()
    s, outputs = branches()
    plan, _ = planned(s, outputs, 1000)
    assert not loops(plan)


def program(near):
    net = pt.Sequential(
        [
            pt.Input((3, 16, 16)),
            pt.layers.Conv2D(filters=8, kernel_size=3, padding="same"),
            pt.layers.BatchNormalization(),
            pt.layers.Activation("relu"),
            pt.layers.GlobalAveragePooling2D(),
            pt.layers.Dense(units=3),
        ]
    )
    net.compile(loss="mse", optimizer="sgd", metrics=["mae"])
    backend = cpu("native")
    backend.cache_bytes = near
    return PlanCache(net.net, Variables(), backend, net.compile_block)


def test_predictions_and_evaluations_but_no_training():
    made = program(1 << 14)
    specs = step_specs(made.net, BATCH)
    assert loops(made.plan(PREDICT, specs))
    assert loops(made.plan(TEST, specs))
    assert not loops(made.plan(TRAIN, specs))


def test_the_plan_and_the_times_tell_of_it():
    made = program(1 << 14)
    plan = made.plan(PREDICT, step_specs(made.net, BATCH))
    (loop,) = loops(plan)
    text = str(describe_plan(plan, made.backend, "title"))
    assert f"x{loop.trip_count} " in text
    order = [plan.steps[i].node.op.name for i, _ in plan.schedule()]
    assert len(order) == len(plan.steps) + (loop.trip_count - 1) * sum(s.node.loop == loop for s in plan.steps)
    runner = make_executor(plan, made.backend, made.variables)
    inputs = {name: np.zeros(v.shape, v.dtype) for name, v in plan.inputs.items()}
    assert len(time_plan(runner, inputs, 1).steps) == len(plan.steps)
