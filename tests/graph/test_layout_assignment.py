"""The layout pass: values lie as channels_last where kernels want them so, and nothing else changes, to the last bit:
the kernels here compute on plain copies."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.ops.layout import layouts_coincide
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec
from prototorch.train.step_inputs import PREDICT, TRAIN
from tests.graph.fusing import LAID, LEVEL, names, predict, program_of, specs_of, train

LAYING, PLAIN = Backend("laying", np, (LAID,)), Backend("plain", np, ())
CONV = {"strides": (1, 1), "pads": ((1, 1), (1, 1)), "dilation": (1, 1)}


def run(graph, outputs, updates=None, states=None, backend=LAYING, **inputs):
    plan = make_plan(graph, outputs, updates, backend)
    held = {k: a.copy() for k, a in (states or {}).items()}
    out = make_executor(plan, backend, held)(inputs)
    return plan, {k: np.array(a) for k, a in out.items()}, held


def agree(graph, outputs, updates=None, states=None, **inputs):
    """The plan, whose results are those of the plain one."""
    plan, out, held = run(graph, outputs, updates, states, **inputs)
    _, wanted, kept = run(graph, outputs, updates, states, PLAIN, **inputs)
    for got, want in ((out, wanted), (held, kept)):
        assert got.keys() == want.keys()
        for name in got:
            np.testing.assert_array_equal(got[name], want[name])
    return plan


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "size", "batch"), [("lenet", None, 3), ("resnet18", 64, 3), ("squeezenet", 64, 2), ("multi_task", 32, 2)]
)
def test_a_training_step_gives_the_same(model, size, batch):
    one, other = program_of(model, LEVEL), program_of(model, LAID)
    specs = specs_of(one, batch, size)
    losses, weights = train(one, specs, 1)
    assert train(other, specs, 1)[0] == losses
    assert all(np.array_equal(a, other.variables[k]) for k, a in weights.items())


@pytest.mark.parametrize(("model", "size"), [("mobilenet_v2", 64), ("densenet121", 32), ("googlenet", 128)])
def test_a_prediction_gives_the_same(model, size):
    one, other = program_of(model, LEVEL), program_of(model, LAID)
    specs = specs_of(one, 1, size)
    wanted, got = predict(one, specs), predict(other, specs)
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize(("model", "wanted"), [("resnet18", 1), ("alexnet", 3), ("googlenet", 3), ("vgg16", 2)])
def test_values_are_moved_only_where_the_net_enters_and_leaves_the_convolutions(model, wanted):
    """The pictures; and around a flattening, what is flattened, and its gradient in a training step."""
    program = program_of(model, LAID)
    plan = program.plan(TRAIN if model in ("resnet18", "alexnet") else PREDICT, specs_of(program, 1), create=False)
    assert names(plan).count("reorder") == wanted
    steps = [s for s in plan.steps if s.node.phase == "forward" and s.node.op is not ops.reorder]
    assert all(v.spec.layout for s in steps for v in s.outputs if v.ndim == 4 and not layouts_coincide(v.shape))


def test_outputs_states_and_inputs_are_plain():
    graph = Graph()
    x, w = graph.input("x", Spec((2, 3, 5, 4))), graph.state("w", Spec((6, 3, 3, 3)))
    seen = graph.state("seen", Spec((2, 6, 5, 4)))
    y = ops.conv(x, w, **CONV)
    given = {"x": normal(2, 3, 5, 4), "states": {"w": normal(6, 3, 3, 3), "seen": normal(2, 6, 5, 4)}}
    plan = agree(graph, {"y": y, "twice": y * 2.0, "x": x}, {"seen": seen + y}, **given)
    assert all(v.spec.layout is None for v in (*plan.outputs.values(), *plan.states.values(), *plan.inputs.values()))
    _, out, _ = run(graph, {"y": y}, **given)
    assert out["y"].flags.c_contiguous


def test_each_value_is_moved_once():
    graph = Graph()
    x, w = graph.input("x", Spec((2, 3, 5, 4))), graph.state("w", Spec((6, 3, 3, 3)))
    total = ops.conv(x, w, **CONV) + ops.conv(x, w * 2.0, **CONV)
    flat = ops.reshape(total, shape=(2, -1))
    turned = ops.transpose(total, order=(0, 2, 3, 1))
    plan = agree(graph, {"flat": flat, "turned": turned}, x=normal(2, 3, 5, 4), states={"w": normal(6, 3, 3, 3)})
    assert names(plan).count("reorder") == 2


@pytest.mark.parametrize("shape", [(2, 1, 5, 4), (2, 3, 1, 1)])
def test_what_lies_the_same_in_both_layouts_is_not_moved(shape):
    graph = Graph()
    x, w = graph.input("x", Spec(shape)), graph.state("w", Spec((1, shape[1], 3, 3)))
    y = ops.reshape(ops.conv(x, w, **CONV), shape=(2, -1))
    plan = agree(graph, {"y": y}, x=normal(*shape), states={"w": normal(1, shape[1], 3, 3)})
    assert names(plan) == ["conv"]


def test_operands_of_every_form_go_along():
    graph = Graph()
    x, w = graph.input("x", Spec((2, 3, 5, 4))), graph.state("w", Spec((6, 3, 3, 3)))
    forms = [(6, 1, 1), (1, 6, 1, 1), (2, 6, 1, 1), (2, 1, 5, 4), (1, 1, 5, 4), (4,), (), (1,), (2, 6, 5, 4), (5, 4)]
    y, given = ops.conv(x, w, **CONV), {}
    for i, shape in enumerate(forms):
        y = ops.tanh(y) * graph.input(f"v{i}", Spec(shape))
        given[f"v{i}"] = normal(*shape, seed=i)
    y = y + graph.constant(normal(2, 6, 5, 4, seed=20))
    y = ops.concat(y, ops.relu(y), graph.input("more", Spec((2, 2, 5, 4))), axis=1)
    y = ops.concat(y, y, axis=2)[:, 1:7, ::2]
    total = ops.mean(y, axis=(2, 3))
    agree(graph, {"y": y, "total": total, "kept": ops.sum(y, axis=(0, 2, 3), keepdims=True)},
          x=normal(2, 3, 5, 4), more=normal(2, 2, 5, 4), states={"w": normal(6, 3, 3, 3)}, **given)  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_any_number_of_spatial_axes(rank):
    graph = Graph()
    size = (5, 4, 3)[:rank]
    x, w = graph.input("x", Spec((2, 3, *size))), graph.state("w", Spec((4, 3, *(3,) * rank)))
    y = ops.relu(ops.conv(x, w, strides=(1,) * rank, pads=((1, 1),) * rank, dilation=(1,) * rank))
    plan = agree(
        graph,
        {"y": ops.mean(y, axis=tuple(range(2, 2 + rank)))},
        x=normal(2, 3, *size),
        states={"w": normal(4, 3, *(3,) * rank)},
    )
    assert names(plan) == ["reorder", "conv+relu", "mean"]


def test_the_gradient_of_a_mean_is_spread_out_in_the_layout_it_is_needed_in():
    program = program_of("resnet18", LAID)
    plan = program.plan(TRAIN, specs_of(program, 1), create=False)
    spread = [s for s in plan.steps if s.node.op is ops.broadcast_to]
    assert [s.outputs[0].spec.layout for s in spread] == ["channels_last"]


def test_nets_without_convolutions_stay_as_they_are():
    for model in ("transformer", "mlp", "lstm"):
        program = program_of(model, LAID)
        plan = program.plan(TRAIN, specs_of(program, 2), create=False)
        assert all(v.spec.layout is None for v in plan.allocations)
