"""Attention in a plan with its gradient saves the statistics of its rows."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.ops.core import gradients, run_on_arrays
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

REFERENCE, NATIVE = Backend("", np, ()), cpu("native")
pytestmark = pytest.mark.skipif("native" not in NATIVE.levels, reason="no native level here")
SHAPE = (2, 9, 3, 4)
QKV = ("q", "k", "v")


def run(backend, with_grads=True, causal=True, **attrs):
    """The ops of a plan of two attentions over the same inputs, and its outputs."""
    graph = Graph()
    q, k, v, g = (graph.input(name, Spec(SHAPE)) for name in (*QKV, "g"))
    rest = (graph.input("key", Spec((2,), "uint64")),) if attrs else ()
    outputs = {}
    for name, is_causal in (("a", causal), ("b", not causal)):
        outputs[name] = ops.attention_heads(q, k, v, *rest, causal=is_causal, **attrs)
        if with_grads:
            with graph.phase("backward"):
                grads = ops.attention_heads_grad(g, q, k, v, *rest, causal=is_causal, **attrs)
            outputs |= {name + of: grad for of, grad in zip(QKV, grads, strict=True)}
    plan = make_plan(graph, outputs, {}, backend)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(SHAPE).astype(np.float32) for name in (*QKV, "g")}
    results = make_executor(plan, backend, {})(arrays | ({"key": np.array([1, 2], np.uint64)} if attrs else {}))
    return [step.node.op.name for step in plan.steps], {name: np.array(results[name]) for name in outputs}


@pytest.mark.parametrize("attrs", [{}, {"rate": 0.3, "site": 3}], ids=["plain", "dropout"])
def test_each_gradient_reads_what_its_own_attention_saved(attrs):
    steps, results = run(NATIVE, **attrs)
    assert sorted(steps) == ["attention_heads_with_stats"] * 2 + ["attention_heads_with_stats_grad"] * 2
    _, expected = run(REFERENCE, **attrs)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=2e-5, atol=2e-5, err_msg=name)


def test_without_a_gradient_nothing_is_saved():
    assert run(NATIVE, with_grads=False)[0] == ["attention_heads"] * 2


def test_without_kernels_of_the_pair_nothing_is_saved():
    steps, _ = run(Backend("numpy", np, ("numpy",)))
    assert not [name for name in steps if "stats" in name]


def test_the_gradient_of_the_pair_is_that_of_attention():
    """The derivative is taken of the op that saves, too, as when a plan is differentiated again."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(SHAPE) for _ in range(4)]

    def grads(op):
        return run_on_arrays(lambda *values: tuple(gradients(op, *values[:3], seeds=values[3:])), *arrays)

    plain = grads(lambda *v: ops.attention_heads(*v, causal=True))
    saved = grads(lambda *v: ops.attention_heads_with_stats(*v, causal=True)[0])
    for a, b in zip(saved, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
