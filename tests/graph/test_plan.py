"""The plan: nothing is lost, nothing is shared that is still read, states change in place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.cpu import cpu
from prototorch.errors import ShapeError
from prototorch.graph.ir import Graph
from prototorch.graph.memory_planner import ALIGNMENT, align_up, assign_offsets, live_bytes
from prototorch.graph.plan import make_plan
from prototorch.ops.core import use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec


@pytest.mark.parametrize("largest", [5000, 5_000_000])  # small arenas are arranged in the order of birth alone
def test_buffers_that_live_at_the_same_time_never_overlap(largest):
    rng = np.random.default_rng(0)
    for _ in range(50):
        born = rng.integers(0, 40, 60)
        buffers = [(int(b), int(b + rng.integers(0, 12)), int(rng.integers(0, largest))) for b in born]
        offsets, top = assign_offsets(buffers)
        placed = list(zip(buffers, offsets, strict=True))
        assert max(live_bytes(buffers)) <= top
        assert all(offset % ALIGNMENT == 0 and offset + align_up(n) <= top for (_, _, n), offset in placed)
        for ((a, b, n), i), ((c, d, m), k) in itertools.combinations(placed, 2):
            if a <= d and c <= b:
                assert i + align_up(n) <= k or k + align_up(m) <= i


def test_buffers_one_after_the_other_share_memory():
    offsets, top = assign_offsets([(i, i + 1, 1000) for i in range(20)])
    assert top == 2 * align_up(1000)
    assert len(set(offsets)) == 2


def test_holes_that_the_order_of_birth_leaves_are_closed():
    mib = 1 << 20
    buffers = [(0, 1, 10 * mib), (1, 4, 20 * mib), (2, 3, 20 * mib), (3, 5, 10 * mib), (4, 5, 30 * mib)]
    assert assign_offsets(buffers, 0.01)[1] <= 1.01 * max(live_bytes(buffers))


def _run(graph, outputs, updates=None, states=None, **inputs):
    plan = make_plan(graph, outputs, updates)
    return plan, make_executor(plan, cpu(), states or {})(inputs)


def test_what_nobody_wants_is_not_computed_and_what_is_said_twice_is_computed_once():
    graph = Graph()
    x = graph.input("x", Spec((4,)))
    ops.exp(x)
    y = ops.tanh(x) + ops.tanh(x)
    plan, out = _run(graph, {"y": y}, x=np.arange(4, dtype=np.float32))
    assert [s.node.op.name for s in plan.steps] == ["tanh", "add"]
    np.testing.assert_allclose(out["y"], 2 * np.tanh(np.arange(4.0)), rtol=1e-6)  # some places of float32


def test_constants_are_folded():
    graph = Graph()
    x = graph.input("x", Spec((3,)))
    with use_interpreter(graph):
        scale = ops.exp(ops.full(shape=(3,), value=0.0)) * 2
    plan, out = _run(graph, {"y": x * scale}, x=np.ones(3, np.float32))
    assert [s.node.op.name for s in plan.steps] == ["multiply"]
    assert out["y"].tolist() == [2, 2, 2]


def test_a_value_that_is_read_later_is_not_written_over():
    """tanh may work in place, but here its input is read again afterwards."""
    graph = Graph()
    x = graph.input("x", Spec((5,)))
    a = x + 1.0
    b = ops.tanh(a)
    _, out = _run(graph, {"a": a, "c": b * a}, x=np.arange(5, dtype=np.float32))
    a_here = np.arange(5, dtype=np.float32) + 1
    assert np.array_equal(out["a"], a_here)
    assert np.allclose(out["c"], np.tanh(a_here) * a_here, rtol=1e-6)


def test_long_chains_take_the_memory_of_one_link():
    graph = Graph()
    value = graph.input("x", Spec((1000,)))
    for _ in range(30):
        value = ops.tanh(value)
    plan = make_plan(graph, {"y": value})
    assert plan.arena_bytes == align_up(4000)


def test_states_are_updated_in_place_without_a_copy():
    graph = Graph()
    w = graph.state("w", Spec((6,)))
    x = graph.input("x", Spec((6,)))
    states = {"w": np.ones(6, np.float32)}
    memory = states["w"]
    plan, _ = _run(graph, {"s": ops.sum(w * x)}, {"w": w - x}, states, x=np.full(6, 0.25, np.float32))
    assert plan.state_copies == []
    assert states["w"] is memory
    assert memory.tolist() == [0.75] * 6


def test_a_state_that_is_read_after_its_update_was_said_keeps_its_old_value_for_that():
    graph = Graph()
    w = graph.state("w", Spec((3,)))
    new = w + 1.0
    later = w * 10.0
    states = {"w": np.array([1, 2, 3], np.float32)}
    _, out = _run(graph, {"later": later}, {"w": new}, states)
    assert out["later"].tolist() == [10, 20, 30]
    assert states["w"].tolist() == [2, 3, 4]


def test_two_states_can_be_exchanged():
    graph = Graph()
    a, b = graph.state("a", Spec((2,))), graph.state("b", Spec((2,)))
    states = {"a": np.array([1, 2], np.float32), "b": np.array([3, 4], np.float32)}
    _run(graph, {}, {"a": b * 1.0, "b": a * 1.0}, states)
    assert states["a"].tolist() == [3, 4]
    assert states["b"].tolist() == [1, 2]


def test_an_output_that_is_an_input_a_view_or_a_state_is_given_back():
    graph = Graph()
    x = graph.input("x", Spec((2, 3)))
    w = graph.state("w", Spec((2,)))
    outputs = {"x": x, "flat": ops.reshape(x, shape=(6,)), "w": w}
    _, out = _run(graph, outputs, None, {"w": np.ones(2, np.float32)}, x=np.arange(6, dtype=np.float32).reshape(2, 3))
    assert out["flat"].tolist() == list(range(6))
    assert out["w"].tolist() == [1, 1]


def test_an_input_of_the_wrong_shape_is_refused_before_anything_runs():
    graph = Graph()
    x = graph.input("x", Spec((2, 3)))
    with pytest.raises(ShapeError, match=r"input 'x': expected shape \[2, 3\], got \[3, 2\]"):
        _run(graph, {"y": x * 2.0}, x=np.zeros((3, 2), np.float32))


def test_a_shared_state_keeps_one_shape():
    graph = Graph()
    graph.state("w", Spec((2, 3)))
    with pytest.raises(ShapeError, match=r"\[2, 3\] here and \[3, 2\] there"):
        graph.state("w", Spec((3, 2)))
