"""Fusion changes which steps there are, never what comes out: to the last bit, for the bodies are the same."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph
from prototorch.graph.passes.fusion_groups import FusionGroups
from prototorch.graph.plan import make_plan
from prototorch.ops.core import OPS, backward_pass, use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec
from prototorch.train.step_inputs import TRAIN
from tests.graph.fusing import BARE, LEVEL, names, predict, program_of, specs_of, train

FUSING, PLAIN = Backend("fusing", np, (LEVEL,)), Backend("plain", np, ())


def run(graph, outputs, updates=None, states=None, backend=FUSING, **inputs):
    plan = make_plan(graph, outputs, updates, backend)
    held = {k: a.copy() for k, a in (states or {}).items()}
    out = make_executor(plan, backend, held)(inputs)
    return names(plan), {k: np.array(a) for k, a in out.items()}, held


@pytest.mark.parametrize(
    ("model", "size", "batch"), [("lenet", None, 3), ("two_layer", None, 4), ("mlp", None, 3), ("resnet18", 32, 2)]
)
def test_a_training_step_gives_the_same_bits(model, size, batch):
    one, other = program_of(model, BARE), program_of(model)
    specs = specs_of(one, batch, size)
    losses, weights = train(one, specs)
    assert train(other, specs)[0] == losses
    assert len(other.plan(TRAIN, specs).steps) < 0.8 * len(one.plan(TRAIN, specs).steps)
    assert all(np.array_equal(weights[k], a) for k, a in other.variables.items())


@pytest.mark.parametrize(
    ("model", "size"),
    [("lstm", None), ("squeezenet", 64), ("transformer", None), ("mobilenet_v2", 32), ("densenet121", 32)],
)
def test_a_prediction_gives_the_same_bits(model, size):
    one, other = program_of(model, BARE), program_of(model)
    specs = specs_of(one, 1, size)
    wanted = predict(one, specs)
    for name, array in predict(other, specs).items():
        assert np.array_equal(array, wanted[name])
        assert np.isfinite(array).all()


def test_lenet_is_fused_as_one_would_by_hand():
    program = program_of("lenet")
    plan = program.plan(TRAIN, specs_of(program, 2))
    assert [n for n in names(plan) if n.startswith(("conv", "matmul"))] == [
        "conv+add+relu", "conv+add+relu", "matmul+add+relu", "matmul+add", "matmul+relu_grad", "matmul",
        "conv_weight_grad", "conv_input_grad+relu_grad", "conv_weight_grad", "matmul+adam_update", "matmul+adam_update",
    ]  # fmt: skip
    assert plan.state_copies == []


def test_members_that_are_read_elsewhere_become_outputs():
    graph = Graph()
    x = graph.input("x", Spec((5,)))
    a = ops.exp(x)
    b = a * 2.0
    steps, out, _ = run(graph, {"sum": ops.sum(a), "b": b}, x=np.arange(5, dtype=np.float32))
    assert steps == ["exp+multiply", "sum"]
    assert np.array_equal(out["b"], np.exp(np.arange(5, dtype=np.float32)) * 2)


def test_no_group_where_a_way_leads_through_another_op():
    """exp and the division read each other's results, but the sum between them must lie between."""
    graph = Graph()
    x = graph.input("x", Spec((2, 5)))
    a = ops.exp(x)
    steps, out, _ = run(graph, {"y": a / ops.sum(a)}, x=np.zeros((2, 5), np.float32))
    assert steps == ["exp", "sum", "divide"]
    assert np.allclose(out["y"], 0.1, rtol=1e-6)


def test_no_group_of_different_shapes():
    graph = Graph()
    x, v = graph.input("x", Spec((2, 5))), graph.input("v", Spec((5,)))
    steps, _, _ = run(graph, {"y": ops.tanh(x) * ops.exp(v)}, x=np.zeros((2, 5), np.float32), v=np.zeros(5, np.float32))
    assert steps == ["exp", "tanh+multiply"]


def test_two_chains_that_meet_are_one_group():
    graph = Graph()
    x, y = graph.input("x", Spec((4,))), graph.input("y", Spec((4,)))
    made = ops.tanh(ops.exp(x)) + ops.square(ops.cos(y))
    steps, _, _ = run(graph, {"y": made}, x=np.zeros(4, np.float32), y=np.zeros(4, np.float32))
    assert steps == ["exp+tanh+cos+square+add"]


def test_an_anchor_whose_result_is_read_twice_stays_alone():
    graph = Graph()
    x, w = graph.input("x", Spec((2, 3))), graph.state("w", Spec((3, 4)))
    y = x @ w
    given = {"x": np.ones((2, 3), np.float32), "states": {"w": np.ones((3, 4), np.float32)}}
    assert run(graph, {"y": ops.relu(y), "sum": ops.sum(y)}, **given)[0] == ["matmul", "relu", "sum"]
    assert run(graph, {"y": ops.relu(y), "z": y}, **given)[0] == ["matmul", "relu"]
    assert run(graph, {"y": ops.relu(y) * y}, **given)[0] == ["matmul+relu+multiply"]


def test_an_anchor_takes_no_operand_along_another_axis():
    graph = Graph()
    x, w = graph.input("x", Spec((2, 3))), graph.state("w", Spec((3, 4)))
    rows, columns = graph.input("rows", Spec((2, 1))), graph.input("columns", Spec((4,)))
    given = {"x": np.ones((2, 3), np.float32), "rows": np.ones((2, 1), np.float32), "columns": np.ones(4, np.float32)}
    states = {"w": np.ones((3, 4), np.float32)}
    assert run(graph, {"y": x @ w + rows}, states=states, **given)[0] == ["matmul", "add"]
    assert run(graph, {"y": x @ w + columns}, states=states, **given)[0] == ["matmul+add"]


def test_a_backend_that_refuses_a_group_gets_its_parts():
    class Refusing(Backend):
        def has_kernel(self, op, ins, outs, attrs):
            return all(line[0] != "tanh" for line in attrs["program"])

    graph = Graph()
    x, w = graph.input("x", Spec((2, 3))), graph.state("w", Spec((3, 4)))
    value = ops.exp(ops.square(ops.tanh(ops.relu(x @ w + 1.0)) * 2.0))
    backend = Refusing("refusing", np, (LEVEL,))
    steps, _, _ = run(
        graph, {"y": value}, states={"w": np.ones((3, 4), np.float32)}, backend=backend, x=np.ones((2, 3), np.float32)
    )
    assert steps == ["matmul+add+relu", "tanh", "multiply", "square", "exp"]


def update_of(graph):
    """A step of a weight with decay and momentum, and the loss before it."""
    x, rate, step = (
        graph.input("x", Spec((6, 2))),
        graph.input("rate", Spec(())),
        graph.input("step", Spec((), "int64")),
    )
    w, v = graph.state("w", Spec((6, 2))), graph.state("v", Spec((6, 2)))
    loss = ops.sum(w * x)
    with graph.phase("update"):
        decayed = ops.clip(x * 0.5, -1.0, 1.0)
        new, moved = ops.momentum_update(w, decayed, rate, step, v, momentum=0.9)
    given = {"x": np.full((6, 2), 4, np.float32), "rate": np.float32(0.1), "step": np.int64(1)}
    states = {"w": np.ones((6, 2), np.float32), "v": np.ones((6, 2), np.float32)}
    return loss, {"w": new, "v": moved}, {"states": states, **given}


def test_an_update_is_one_sweep_over_the_states_themselves():
    graph = Graph()
    loss, updates, given = update_of(graph)
    plan = make_plan(graph, {"loss": loss}, updates, FUSING)
    assert names(plan) == ["multiply", "sum", "multiply+maximum+minimum+momentum_update"]
    assert plan.state_copies == []
    assert all(plan.allocations[v].kind == "state" for v in plan.steps[-1].outputs)
    _, _, states = run(graph, {"loss": loss}, updates, **given)
    _, _, wanted = run(graph, {"loss": loss}, updates, backend=PLAIN, **given)
    assert all(np.array_equal(states[k], wanted[k]) for k in wanted)


def test_weights_do_not_change_where_the_guard_refuses():
    graph = Graph()
    loss, updates, given = update_of(graph)
    states = given.pop("states")
    runner = make_executor(make_plan(graph, {"loss": loss}, updates, FUSING), FUSING, states)

    def refuse(_):
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        runner(given, refuse)
    assert np.array_equal(states["w"], np.ones((6, 2)))


def test_states_that_the_forward_pass_makes_change_after_the_guard():
    graph = Graph()
    loss, updates, given = update_of(graph)
    seen, rows = graph.state("seen", Spec((2,))), graph.state("rows", Spec((6,)))
    behind = next(node for node in graph if node.phase != "forward")
    with graph.insertion_point(behind), graph.phase("forward"):
        mean = ops.mean(graph.inputs["x"], axis=0)
        updates |= {"seen": seen * 0.9 + mean, "rows": rows + ops.sum(graph.inputs["x"], axis=1)}
    states = given.pop("states") | {"seen": np.ones(2, np.float32), "rows": np.ones(6, np.float32)}
    plan = make_plan(graph, {"loss": loss, "mean": mean}, updates, FUSING)
    assert plan.state_copies == []
    assert [s.node.phase for s in plan.steps] == ["forward"] * 3 + ["update"] * 4
    kept = {k: a.copy() for k, a in states.items()}

    def refuse(_):
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        make_executor(plan, FUSING, states)(given, refuse)
    assert all(np.array_equal(states[k], kept[k]) for k in kept)


def test_the_gradient_of_a_large_weight_waits_for_its_update():
    def steps(rows):
        graph = Graph()
        x, g = graph.input("x", Spec((rows, 30))), graph.input("g", Spec((rows, 20)))
        rate, step = graph.input("rate", Spec(())), graph.input("step", Spec((), "int64"))
        w = graph.state("w", Spec((30, 20)))
        with graph.phase("backward"):
            dw = ops.matmul(x, g, transpose_a=True)
        with graph.phase("update"):
            (new,) = ops.sgd_update(w, dw, rate, step)
        return make_plan(graph, {}, {"w": new}, FUSING)

    assert names(steps(2)) == ["matmul+sgd_update"]
    assert [s.node.phase for s in steps(2).steps] == ["update"]
    assert names(steps(100)) == ["matmul", "sgd_update"]


def test_a_group_writes_over_what_nobody_reads_afterwards():
    graph = Graph()
    x = graph.input("x", Spec((1000,)))
    v = ops.cumsum(x, axis=0)
    plan = make_plan(graph, {"y": ops.tanh(v * 2.0)}, None, FUSING)
    assert names(plan) == ["cumsum", "multiply+tanh"]
    assert plan.arena_bytes == 4032
    plan = make_plan(graph, {"y": ops.tanh(v * 2.0), "v": v}, None, FUSING)
    assert plan.arena_bytes == 2 * 4032


def test_the_graph_can_be_planned_for_another_backend_afterwards():
    graph = Graph()
    x = graph.input("x", Spec((4,)))
    y = ops.tanh(ops.exp(x)) + 1.0
    given = {"x": np.arange(4, dtype=np.float32)}
    first = run(graph, {"y": y}, **given)
    assert run(graph, {"y": y}, backend=PLAIN, **given)[0] == ["exp", "tanh", "add"]
    again = run(graph, {"y": y}, **given)
    assert first[0] == again[0] == ["exp+tanh+add"]
    assert np.array_equal(first[1]["y"], again[1]["y"])


def below(groups, group):
    """The nodes that a group depends on, found by going there."""
    found, waiting = set(), [group]
    while waiting:
        for p in groups._sources[waiting.pop()]:
            if groups.group_of[p] not in found:
                found.add(groups.group_of[p])
                waiting.append(groups.group_of[p])
    return sum(groups._bits[g] for g in found)


def test_random_groups_keep_an_order():
    rng = np.random.default_rng(0)
    for _ in range(30):
        graph = Graph()
        values = [graph.input("x", Spec((2,)))]
        for _ in range(25):
            a, b = rng.integers(0, len(values), 2)
            values.append(values[a] + values[b])
        groups = FusionGroups(graph.nodes)
        for a, b in rng.integers(0, 25, (40, 2)):
            pair = {groups.group_of[a], groups.group_of[b]}
            if len(pair) == 2 and groups.can_merge(pair):
                groups.merge(pair)
        for g in groups.members:
            assert groups._ancestors[g] == below(groups, g)
            assert groups._descendants[g] == sum(
                1 << i
                for h in groups.members
                for i in groups.members[h]
                if below(groups, h) & groups._bits[g] and h != g
            )
        order = groups.order()
        assert sorted(order) == sorted(groups.members)
        place = {i: k for k, g in enumerate(order) for i in groups.members[g]}
        for i, node in enumerate(graph.nodes):
            for v in node.inputs:
                p = groups.producer.get(v)
                assert p is None or place[p] <= place[i]


def pooling(kernel, size, activation):
    """A pooling after an activation, and the gradient of what was before both."""
    graph = Graph()
    x = graph.input("x", Spec((2, 3, *size)))
    attrs = {"kernel": kernel, "strides": (2, 2), "pads": ((0, 1), (1, 0))}
    y = activation(x)
    pooled = ops.tanh(ops.max_pool(y, **attrs)[0])
    with use_interpreter(graph):
        total = ops.sum(pooled * graph.constant(normal(*pooled.shape, seed=1)))
        with graph.phase("backward"):
            (g,) = backward_pass(list(graph.nodes), [(total, graph.constant(np.float32(1)))], [x])
            out = {"g": g * 1.0, "channels": ops.sum(g, axis=(0, 2, 3))}
    return graph, out, {"x": normal(2, 3, *size)}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


#: the activations whose derivative follows from their output
READ_FROM_OUTPUT = [name.removesuffix("_grad") for name, op in OPS.items() if getattr(op, "reads_output", False)]


@pytest.mark.parametrize("name", READ_FROM_OUTPUT)
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3)], ids=str)
def test_a_derivative_is_taken_where_the_gradient_is_small(kernel, name):
    graph, out, given = pooling(kernel, (7, 8), OPS[name])
    plan = make_plan(graph, out, None, FUSING)
    grad = next(s for s in plan.steps if f"{name}_grad" in names_of(s))
    assert grad.outputs[0].shape[2] < 7
    _, got, _ = run(graph, out, **given)
    _, wanted, _ = run(graph, out, backend=PLAIN, **given)
    for name in wanted:  # sums of up to 56 numbers of size 1 in another order
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-5, atol=1e-5)


def names_of(step):
    return "+".join(line[0] for line in step.node.attrs.get("program", ())) or step.node.op.name


def test_dropout_tells_the_derivative_so_that_the_activation_is_not_kept():
    graph = Graph()
    x, w = graph.input("x", Spec((4, 6))), graph.state("w", Spec((6, 8)))
    key = graph.input("key", Spec((2,), "uint64"))
    y = ops.dropout(ops.relu(x @ w), key, rate=0.5, site=3)
    total = ops.sum(y * y)
    with graph.phase("backward"):
        (g,) = backward_pass(list(graph.nodes), [(total, graph.constant(np.float32(1)))], [w])
    given = {"x": normal(4, 6), "key": np.array([1, 2], np.uint64), "states": {"w": normal(6, 8, seed=1)}}
    steps, got, _ = run(graph, {"g": g}, **given)
    assert steps[0] == "matmul+relu+dropout"
    assert np.array_equal(got["g"], run(graph, {"g": g}, backend=PLAIN, **given)[1]["g"])


def test_a_sum_may_end_a_group():
    class Summing(Backend):
        def fusion_role(self, name):
            return "tail" if name == "sum" else super().fusion_role(name)

    graph = Graph()
    x, w = graph.input("x", Spec((4, 6))), graph.state("w", Spec((6, 8)))
    y = ops.relu(x @ w)
    out = {"y": ops.sum(y, axis=0), "z": ops.sum(ops.tanh(x) * 2.0), "x": ops.sum(x, axis=1)}
    given = {"x": normal(4, 6), "states": {"w": normal(6, 8, seed=1)}}
    steps, got, _ = run(graph, out, backend=Summing("summing", np, (LEVEL,)), **given)
    assert sorted(steps) == ["matmul+relu+sum", "sum", "tanh+multiply+sum"]
    _, wanted, _ = run(graph, out, backend=PLAIN, **given)
    assert all(np.array_equal(got[k], wanted[k]) for k in wanted)


def test_an_anchor_may_have_more_than_one_output():
    class Norming(Backend):
        def fusion_role(self, name):
            return "anchor" if name == "batch_norm" else super().fusion_role(name)

    graph = Graph()
    x, v = graph.input("x", Spec((4, 3, 5))), graph.state("v", Spec((3,)))
    y, mean, variance = ops.batch_norm(x, v, v, eps=1e-3)
    out = {"y": ops.relu(y + x), "mean": mean, "variance": variance * 2.0}
    given = {"x": normal(4, 3, 5), "states": {"v": normal(3, seed=1)}}
    steps, got, _ = run(graph, out, backend=Norming("norming", np, (LEVEL,)), **given)
    assert steps == ["batch_norm+add+relu", "multiply"]
    _, wanted, _ = run(graph, out, backend=PLAIN, **given)
    assert all(np.array_equal(got[k], wanted[k]) for k in wanted)
