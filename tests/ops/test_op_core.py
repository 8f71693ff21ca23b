"""What carries the ops: interpreters on bare specs and arrays, the reverse sweep, composites."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.ops.core import (
    ArrayInterpreter,
    Op,
    gradients,
    infer_spec_by_decomposition,
    run_on_arrays,
    use_interpreter,
)
from prototorch.ops.operators import OPS
from prototorch.spec import Spec


def grad_of(work, *arrays, seed=None):
    interpreter = ArrayInterpreter(np)
    values = [interpreter.value(a) for a in arrays]
    one = interpreter.value(np.ones(()) if seed is None else seed)
    with use_interpreter(interpreter):
        return [None if g is None else g.array for g in gradients(work, *values, seeds=[one])]


def test_a_value_used_twice_gathers_both_gradients():
    x = np.array([1.0, -2.0])
    (g,) = grad_of(lambda x: ops.sum(x * x + x), x)
    np.testing.assert_array_equal(g, 2 * x + 1)


def test_a_value_that_takes_no_part_has_no_gradient():
    _, g = grad_of(lambda x, y: ops.sum(x), np.ones(2), np.ones(3))
    assert g is None


def test_no_gradient_passes_where_it_is_stopped():
    x = np.array([3.0])
    (g,) = grad_of(lambda x: ops.sum(x * ops.stop_gradient(x)), x)
    np.testing.assert_array_equal(g, x)


def test_a_gradient_passes_by_a_value_of_whole_numbers():
    x = np.array([1.5, 2.5])
    (g,) = grad_of(lambda x: ops.sum(ops.cast(ops.cast(x, dtype="int32"), dtype="float64") * x), x)
    np.testing.assert_array_equal(g, [1, 2])


def test_an_output_may_be_an_input():
    x = np.array(2.0)
    (g,) = grad_of(lambda x: x, x)
    assert g == 1


def test_several_outputs():
    interpreter = ArrayInterpreter(np)
    x = interpreter.value(np.array([3.0, 1.0, 2.0]))
    seed = interpreter.value(np.array([10.0, 20.0]))
    (g,) = gradients(lambda x: ops.top_k(x, k=2), x, seeds=[seed, None])
    np.testing.assert_array_equal(g.array, [10, 0, 20])


def test_gradients_inside_gradients():
    """A composite whose expansion takes gradients itself is seen whole by whoever collects around it."""
    x = np.array([0.5, -0.3])

    def slope(x):
        (g,) = gradients(lambda x: ops.sum(ops.tanh(x)), x, seeds=[ops.ones_like(x)])
        return ops.sum(g * g)

    (g,) = grad_of(slope, x)
    t = np.tanh(x)
    np.testing.assert_allclose(g, 2 * (1 - t * t) * -2 * t * (1 - t * t), rtol=1e-14)


def test_a_composite_needs_nothing_but_its_expansion(monkeypatch):
    monkeypatch.setattr(sys.modules[Op.__module__], "OPS", {})

    class TwiceShifted(Op):
        def decompose(self, x, by):
            return x * 2 + by, x - by

    op = TwiceShifted()
    assert op.name == "twice_shifted"
    x = np.array([1.0, 2.0])
    assert op.infer_spec(Spec((2,), "float64"), by=1.0) == (Spec((2,), "float64"),) * 2
    for got, want in zip(op.reference(np, x, by=1.0), (x * 2 + 1, x - 1), strict=True):
        np.testing.assert_array_equal(got, want)
    (g,) = grad_of(lambda x: ops.sum(op(x, by=3.0)[0] * x), x)
    np.testing.assert_array_equal(g, 4 * x + 3)
    assert infer_spec_by_decomposition(op, [Spec((2,))], {"by": 1.0})[1].dtype == "float32"


def test_the_plain_bodies_run_on_any_array_module():
    """A module that only forwards to NumPy takes the ways that are not NumPy's own, and gives the same bits."""
    other = SimpleNamespace(**{n: getattr(np, n) for n in np.__all__ if not n.startswith("_")})
    other.add = lambda a, b: a + b
    key = np.array([2**64 - 3, 2**63 + 9], "uint64")
    x = np.random.default_rng(0).standard_normal((5, 7))
    for name, arrays, attrs in [
        ("random_bits", (key,), {"site": 9, "shape": (3, 7)}),
        ("random_uniform", (key,), {"site": 2**40, "shape": (11,), "low": 2.0}),
        ("dropout", (x, key), {"rate": 0.3, "site": 1}),
        ("dropout", (x, key), {"rate": 0.3, "site": 1, "noise_shape": (5, 1)}),
        ("embedding_grad", (x, np.array([0, 2, 2, 1, 0])), {"rows": 3}),
    ]:
        np.testing.assert_array_equal(
            OPS[name].reference(other, *arrays, **attrs), OPS[name].reference(np, *arrays, **attrs)
        )


REFUSED = [
    (ops.add, [(2, 3), (4,)], {}, "axis -1 has 3 and 4"),
    (ops.matmul, [(2, 3), (4, 5)], {}, "inner sizes are 3 and 4"),
    (ops.matmul, [(3,), (3, 2)], {}, "two matrices"),
    (ops.sum, [(2, 3)], {"axis": 2}, "axis 2 is out of range"),
    (ops.sum, [(2, 3)], {"axis": (1, -1)}, r"the axes \[1, -1\] of 2 dimensions name one axis twice"),
    (ops.max, [(0, 3)], {"axis": 0}, "cannot reduce an empty axis"),
    (ops.argmax, [(2, 0)], {"axis": 1}, "cannot reduce an empty axis"),
    (ops.reshape, [(2, 3)], {"shape": (4, 2)}, "6 elements"),
    (ops.reshape, [(2, 3)], {"shape": (-1, -1)}, "only one dimension"),
    (ops.transpose, [(2, 3)], {"order": (0, 0)}, "not a permutation of 2 axes"),
    (ops.concat, [(2, 3), (2, 4)], {"axis": 0}, "equal except along axis 0"),
    (ops.broadcast_to, [(2,)], {"shape": (3,)}, "cannot be broadcast"),
    (ops.pad, [(2,)], {"pads": ((2, 0),), "mode": "reflect"}, "to reflect"),
    (
        ops.conv,
        [(1, 3, 5), (2, 3, 6)],
        {"strides": (1,), "pads": ((0, 0),), "dilation": (1,)},
        "kernel size 6 exceeds the padded input size 5",
    ),
    (ops.conv, [(1, 3, 5), (2, 2, 3)], {"strides": (1,), "pads": ((0, 0),), "dilation": (1,)}, "do not match 1 groups"),
    (
        ops.max_pool,
        [(1, 1, 2)],
        {"kernel": (3,), "strides": (1,), "pads": ((0, 0),)},
        "pool size 3 exceeds the padded input size 2",
    ),
    (
        ops.avg_pool,
        [(1, 1, 9)],
        {"kernel": (2,), "strides": (1,), "pads": ((2, 0),)},
        "must be smaller than the pool size",
    ),
    (ops.batch_norm, [(2, 3), (2,), (3,)], {"eps": 1e-3}, "needs gamma and beta of shape"),
    (ops.layer_norm, [(2, 3), (2,), (3,)], {"axis": -1, "eps": 1e-3}, "gamma and beta of shape"),
    (ops.lrn, [(2, 3)], {"size": 2, "alpha": 1.0, "beta": 0.5, "k": 1.0}, "must be odd"),
    (ops.prelu, [(2, 3), (2,)], {}, "not broadcast"),
    (ops.top_k, [(2, 3)], {"k": 4}, "between 1 and 3"),
    (ops.lstm_sequence, [(2, 3, 8), (2, 8), (2, 2), (2, 3)], {}, "initial states"),
    (ops.lstm_sequence, [(2, 0, 8), (2, 8), (2, 2), (2, 2)], {}, "at least one time step"),
    (ops.gru_sequence, [(2, 3, 8), (2, 6), (6,), (2, 2)], {}, "does not match"),
    (ops.simple_rnn_sequence, [(2, 3, 2), (2, 2)], {}, "expected 3 inputs, got 2"),
    (ops.simple_rnn_sequence, [(2, 3, 2), (2, 2), (2, 2), (2, 3)], {"masked": True}, "expected a mask"),
    (ops.attention_weights, [(1, 1, 2, 3), (1, 1, 2, 4)], {}, "are incompatible"),
    (ops.affine_sample, [(1, 1, 2, 2), (1, 3, 2)], {}, "need matrices"),
    (ops.adam_update, [(2,), (2,), (), (), (3,), (2,)], {}, "gradient and slots"),
]


@pytest.mark.parametrize(("op", "shapes", "attrs", "words"), REFUSED, ids=lambda v: getattr(v, "name", None))
def test_what_does_not_fit_is_refused_with_both_numbers(op, shapes, attrs, words):
    with pytest.raises(ShapeError, match=words) as caught:
        op.infer_spec(*map(Spec, shapes), **attrs)
    assert str(caught.value).startswith(op.name)


TYPES = [
    (ops.exp, ["int32"], {}, "floating-point"),
    (ops.add, ["float32", "float64"], {}, "the same dtype"),
    (ops.divide, ["int32", "int32"], {}, "floating-point"),
    (ops.mean, ["int32"], {}, "floating-point"),
    (ops.any, ["float32"], {}, "bool elements"),
    (ops.where, ["float32", "float32", "float32"], {}, "condition of dtype bool"),
    (ops.take, ["float32", "float32"], {}, "integer"),
    (ops.one_hot, ["float32"], {"classes": 3}, "integers"),
    (ops.random_bits, ["int64"], {"site": 0, "shape": ()}, "expected a key"),
    (ops.dropout, ["float32", "float32"], {"rate": 0.5, "site": 0}, "expected a key"),
]


@pytest.mark.parametrize(("op", "dtypes", "attrs", "words"), TYPES, ids=lambda v: getattr(v, "name", None))
def test_types_that_do_not_fit_are_refused(op, dtypes, attrs, words):
    with pytest.raises(ShapeError, match=words):
        op.infer_spec(*(Spec((2,), d) for d in dtypes), **attrs)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_rates_of_dropout(rate):
    with pytest.raises(ShapeError, match="the rate must be"):
        ops.dropout.infer_spec(Spec((2,)), Spec((2,), "uint64"), rate=rate, site=0)


def test_nan_is_seen():
    x = np.array([[np.nan, 1.0, 2.0]])
    assert np.isnan(run_on_arrays(lambda x: ops.max(x, axis=1), x)).all()
    for op in (ops.relu, ops.sigmoid, ops.gelu, ops.erf, ops.softplus, ops.silu, ops.hard_sigmoid, ops.relu6):
        assert np.isnan(run_on_arrays(op, x)[0, 0])
        assert np.isfinite(run_on_arrays(op, x)[0, 1:]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_overflows_far_from_zero(dtype):
    """Warnings are errors: no body may overflow where its result is finite."""
    x = np.array([-1e30, -800.0, -90.0, 0.0, 90.0, 800.0, 1e30], dtype)
    for name in ("sigmoid", "softplus", "log_sigmoid", "softsign", "elu", "selu", "erf", "hard_sigmoid", "tanh"):
        assert np.isfinite(run_on_arrays(OPS[name], x)).all(), name
    small = np.array([-1e9, -800.0, 800.0, 1e9], dtype)
    for name in ("gelu", "silu", "mish", "hard_swish", "softmax", "log_softmax"):
        assert np.isfinite(run_on_arrays(OPS[name], small)).all(), name


def test_equal_extrema_share_the_gradient():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    for reduction, want in ((ops.max, [[0, 0.5, 0.5], [1 / 3] * 3]), (ops.min, [[1, 0, 0], [1 / 3] * 3])):
        (found,) = grad_of(lambda x, reduction=reduction: ops.sum(reduction(x, axis=1)), x)
        np.testing.assert_allclose(found, want, rtol=1e-12)
