"""Native reductions against the plain bodies: every pattern of kept and reduced axes, in pieces and whole."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.ops.core import use_interpreter
from prototorch.spec import Spec

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

CASES = [
    ((), None), ((1,), None), ((5,), None), ((100_003,), None), ((300, 7), 0), ((300, 7), 1), ((300, 700), 0),
    ((5000, 64), 0), ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6, 7), 1), ((4, 5, 6, 7), (1, 3)), ((4, 5, 6, 7), (0, 2)),
    ((64, 20, 8, 9), (0, 2, 3)), ((3, 100_000), 1), ((100_000, 3), 0), ((2, 70_000, 3), 1), ((3, 1, 50), 1),
    ((40_000, 5), 1), ((20, 1000, 20), 1), ((8, 5000), 0), ((2, 17, 3, 9, 11), (1, 3)), ((9, 16_400), 1),
]  # fmt: skip


def numbers(shape, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sum_mean_and_largest(bits, shape, axis):
    x = numbers(shape)
    # of numbers around 0: the error is that of the parts, some hundred roundings of sums of the size sqrt(n)
    check("sum", x, axis=axis, rtol=1e-5, atol=2e-5)
    check("mean", x, axis=axis, keepdims=True, rtol=1e-5, atol=2e-5)
    check("max", x, axis=axis)
    check("min", x, axis=axis, keepdims=True)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_other_types(bits, shape, axis):
    x = numbers(shape)
    check("sum", x.astype("float64"), axis=axis, rtol=1e-11, atol=1e-12)
    check("sum", np.asarray(x * 100, "int32"), axis=axis)
    check("max", np.asarray(x * 100, "int64"), axis=axis)
    check("any", np.asarray(x > 2.5), axis=axis)
    check("all", np.asarray(x > -2.5), axis=axis)
    check("prod", np.asarray(1 + x * 1e-3, "float32"), axis=axis, rtol=1e-4)  # n roundings of a product of n numbers


@pytest.mark.parametrize(
    ("axis", "keepdims"),
    [
        ((2, 3), False),
        ((2, 3), True),
        ((0, 2, 3), False),
        ((0, 2, 3), True),
        (1, True),
        (None, False),
        (0, True),
        (1, False),
        ((1, 2), False),
    ],
)
def test_channels_last(bits, axis, keepdims):
    x = numbers((6, 33, 15, 13))
    for name in ("sum", "mean", "max"):
        check(name, x, layouts="channels_last", axis=axis, keepdims=keepdims, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("axis", [1, 3, (1, 3), (2, 3)])
def test_behind_a_convolution_no_sum_is_left_to_the_plain_body(axis):
    graph = Graph()
    with use_interpreter(graph):
        y = ops.conv(
            graph.input("x", Spec((2, 3, 9, 9))),
            graph.input("w", Spec((16, 3, 3, 3))),
            strides=(1, 1),
            pads=((0, 0), (0, 0)),
            dilation=(1, 1),
        )
        made = ops.sum(ops.softmax(y, axis=1), axis=axis)
        made = made + ops.sum(ops.sum(made, axis=tuple(range(1, made.ndim))), axis=0)  # of few dimensions too
    backend = cpu("native")
    assert all(backend.has_kernel(*step) for step in make_plan(graph, {"y": made}, None, backend).signatures())


def test_nan_is_passed_on(bits):
    x = numbers((50, 50))
    x[3, 4] = np.nan
    for axis in (0, 1, None):
        check("max", x, axis=axis)
        check("min", x, axis=axis)


def test_a_long_sum_is_as_exact_as_a_short_one(bits):
    x = np.full(3_000_000, 0.1, "float32")
    ins = native_check.specs_of((x,), None)
    outs = native_check.outputs_of("sum", ins, {}, None)
    (total,) = native_check.run_native("sum", (x,), ins, outs, {})
    # parts of 32768 numbers over 16 to 64 lanes: at most 2048 roundings of 2**-24 each; one after another, 3 million
    np.testing.assert_allclose(total, x.astype("float64").sum(), rtol=2048 * 2**-24)


SQUARES = (("square", (("in", 0),), ()), ("multiply", (("node", 0, 0), ("in", 1)), ()))
SLOPES = (("relu_grad", (("in", 0), ("in", 1)), ()),)


@pytest.mark.parametrize(("shape", "axis"), [((5,), None), ((300_001,), None), ((40, 7, 33), (0, 1)), ((6000, 20), 0)])
def test_after_elementwise_ops(bits, shape, axis):
    tail = lambda lines: ("sum", (("node", len(lines) - 1, 0),), (("axis", axis),))  # noqa: E731 - ends a program
    x, y, number = numbers(shape), numbers(shape, 1), np.float32(0.5).reshape(())
    program = (*SQUARES, tail(SQUARES))
    check("fused", x, number, program=program, outputs=(("node", 2, 0),), rtol=1e-5, atol=2e-5)
    ended = (*SLOPES, tail(SLOPES))
    for outputs in ((("node", 0, 0), ("node", 1, 0)), (("node", 1, 0), ("node", 0, 0)), (("node", 1, 0),)):
        inplace = ((outputs.index(("node", 0, 0)), 0),) if len(outputs) > 1 else ()
        check("fused", x, y, program=ended, outputs=outputs, inplace=inplace, rtol=1e-5, atol=2e-5)


def test_after_elementwise_ops_with_channels_last(bits):
    x, y = numbers((6, 33, 5, 7)), numbers((6, 33, 5, 7), 1)
    program = (*SLOPES, ("sum", (("node", 0, 0),), (("axis", (0, 2, 3)),)))
    outputs = (("node", 0, 0), ("node", 1, 0))
    check("fused", x, y, layouts="channels_last", program=program, outputs=outputs, rtol=1e-5, atol=2e-5)
