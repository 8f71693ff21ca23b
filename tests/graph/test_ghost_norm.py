"""The norm of a dense layer's gradient, known without the gradient."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.passes import ghost_norm
from prototorch.graph.plan import make_plan
from prototorch.optimizers.base import clip_factor, sum_of_squares
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec
from tests.graph.fusing import LEVEL, names

M, N = 1100, 1000
assert M * N >= ghost_norm.MIN_PRODUCT_SIZE
FUSING, PLAIN = Backend(LEVEL, np, (LEVEL,)), Backend("", np, ())
UPDATE = "matmul+multiply+momentum_update"


def graph_of(samples=6, n=N, most=5.0):
    """w is updated with x' g, clipped."""
    graph = Graph()
    x, g = graph.input("x", Spec((samples, M))), graph.input("g", Spec((samples, n)))
    w, slot = graph.state("w", Spec((M, n))), graph.state("slot", Spec((M, n)))
    with graph.phase("backward"):
        grad = ops.matmul(x, g, transpose_a=True)
    with graph.phase("update"):
        square = sum_of_squares([grad])
        rate, step = graph.constant(np.float32(0.1)), graph.constant(np.int64(1))
        clipped = grad * clip_factor(square, most)
        new, moved = ops.momentum_update(w, clipped, rate, step, slot, momentum=0.9)
    return graph, {"norm": square}, {"w": new, "slot": moved}


def run(backend, x, g, **more):
    graph, outputs, updates = graph_of(len(x), g.shape[1], **more)
    plan = make_plan(graph, outputs, updates, backend)
    states = {name: np.ones(v.shape, np.float32) for name, v in graph.states.items()}
    norm = make_executor(plan, backend, states)({"x": x, "g": g})["norm"].copy()
    return names(plan), norm, states


def drawn(samples=6, n=N):
    rng = np.random.default_rng(0)
    return (rng.standard_normal((samples, size)).astype(np.float32) for size in (M, n))


@pytest.mark.parametrize("backend", [FUSING, cpu("native")], ids=["fusing", "native"])
@pytest.mark.parametrize("most", [5.0, 1e6])
def test_the_gradient_goes_into_the_update(backend, most):
    x, g = drawn()
    steps, norm, states = run(backend, x, g, most=most)
    plain_steps, plain_norm, plain_states = run(PLAIN, x, g, most=most)
    assert "matmul" in plain_steps
    assert "square" not in steps
    if "native" in backend.levels or backend is FUSING:
        assert steps[-1] == UPDATE
    assert norm.dtype == np.float32
    np.testing.assert_allclose(norm, np.square(x.T.astype("float64") @ g).sum(), rtol=1e-6)
    np.testing.assert_allclose(norm, plain_norm, rtol=1e-4)  # float32 sums of a million squares
    for name, array in states.items():
        np.testing.assert_allclose(array, plain_states[name], rtol=0, atol=1e-5 * np.abs(plain_states[name]).max())


def test_samples_that_cancel():
    """The true norm is 0, the terms of the small products are not."""
    x, g = drawn()
    x[3:], g[3:] = x[:3], -g[:3]
    steps, norm, states = run(FUSING, x, g)
    assert UPDATE in steps
    assert 0 <= norm < 1e-3  # of terms of 1e6, in float64
    assert all(np.isfinite(a).all() for a in states.values())


def test_numbers_that_are_not_finite_stay_so():
    x, g = drawn()
    x[2, 7] = np.nan
    assert np.isnan(run(FUSING, x, g)[1])


def test_a_small_gradient_and_many_samples_are_left_alone():
    x, g = drawn(6, 10)
    assert "matmul" in run(FUSING, x, g)[0]
    x, g = drawn(129)
    assert "matmul" in run(FUSING, x, g)[0]
