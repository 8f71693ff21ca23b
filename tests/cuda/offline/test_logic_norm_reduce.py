"""The logic of the GPU kernels, run on the CPU from the same text: products, reductions, norms, recurrent walks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from prototorch.cuda.kernels.epilogue import build_epilogue
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.core import Backend
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.offline.kernel_logic import LAST, check_kernel, guarded_output, random_array, run_kernel, with_layout
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), -1), ((3, 7, 4), 1), ((2, 3), 0), ((4, 1), -1)])
def test_softmax(device, shape, axis):
    x, g = random_array(*shape) * 5, random_array(*shape, seed=1)
    (y,) = check_kernel(device, "softmax", [x], {"axis": axis})
    check_kernel(device, "log_softmax", [x], {"axis": axis}, rtol=1e-5)
    check_kernel(device, "softmax_grad", [g, y], {"axis": axis})


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_cross_entropy(device, dtype):
    x, labels = random_array(5, 11) * 4, np.array([0, 10, 3, 3, 7], dtype)
    check_kernel(device, "sparse_softmax_cross_entropy", [x, labels], rtol=1e-5)
    check_kernel(device, "sparse_softmax_cross_entropy_grad", [random_array(5, seed=1), x, labels])


def test_cross_entropy_of_a_class_that_is_not_there(device):
    assert np.isnan(
        run_kernel(device, "sparse_softmax_cross_entropy", [random_array(1, 3), np.array([3], np.int32)])[0]
    ).all()


@pytest.mark.parametrize("mask", [None, (2, 3, 5, 6), (2, 1, 1, 6), (5, 6)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights(device, mask, causal):
    arrays = [random_array(2, 3, 5, 4), random_array(2, 3, 6, 4, seed=1)]
    if mask:
        arrays.append(np.random.default_rng(2).random(mask) < 0.7)
    check_kernel(device, "attention_weights", arrays, {"causal": causal})


PRODUCTS = [
    ((3, 4), (4, 5), {}), ((70, 33), (33, 65), {}), ((4, 3), (4, 5), {"transpose_a": True}),
    ((3, 4), (5, 4), {"transpose_b": True}), ((4, 3), (5, 4), {"transpose_a": True, "transpose_b": True}),
    ((2, 3, 4, 5), (5, 2), {}), ((7, 6), (2, 3, 6, 5), {}), ((2, 1, 4, 5), (3, 5, 2), {}),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "attrs"), PRODUCTS)
def test_products(device, a, b, attrs):
    check_kernel(device, "matmul", [random_array(*a), random_array(*b, seed=1)], attrs, rtol=1e-5, atol=1e-5)


REDUCED = [((5, 7), None), ((5, 7), 0), ((5, 7), 1), ((2, 3, 4, 5), (0, 2, 3)), ((2, 3, 4, 5), (1,)), ((300, 9), 0),
           ((9, 3000), 1), ((4000,), 0), ((2, 1, 3), (0, 2)), ((2, 3, 2, 2, 2), (1, 3))]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), REDUCED)
def test_reductions(device, shape, axis):
    x = random_array(*shape)
    for name in ("sum", "mean", "max"):
        check_kernel(device, name, [x], {"axis": axis}, rtol=1e-5, atol=1e-5)
    check_kernel(device, "min", [x], {"axis": axis, "keepdims": True})
    check_kernel(device, "any", [x > 2], {"axis": axis})
    check_kernel(device, "sum", [(x * 10).astype(np.int32)], {"axis": axis})


def test_reductions_of_channels_last(device):
    x = random_array(3, 8, 5, 4)
    for axis in ((0, 2, 3), (2, 3), (1,), None):
        for keep in (True, False):
            check_kernel(device, "sum", [x], {"axis": axis, "keepdims": keep}, [LAST], rtol=1e-5, atol=1e-5)


def test_nan_of_a_reduction_is_seen(device):
    x = random_array(4, 50)
    x[1, 30] = np.nan
    made = run_kernel(device, "max", [x], {"axis": 1})[0]
    assert np.isnan(made).tolist() == [False, True, False, False]


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), 1), ((3, 7, 4), 1), ((4, 2), 0), ((2, 1), 1)])
def test_arguments(device, shape, axis):
    x = np.round(random_array(*shape))  # with equal elements
    check_kernel(device, "argmax", [x], {"axis": axis})
    check_kernel(device, "argmin", [x], {"axis": axis})
    x[0, ...] = np.nan
    check_kernel(device, "argmax", [x], {"axis": axis})


@pytest.mark.parametrize(("shape", "k"), [((5, 40), 5), ((3, 2, 7), 7), ((4,), 1), ((2, 1), 1)])
def test_the_largest(device, shape, k):
    x = np.round(random_array(*shape) * 2)  # with equal elements
    check_kernel(device, "top_k", [x], {"k": k})
    check_kernel(device, "top_k", [x.astype(np.int32)], {"k": k})
    x[..., ::3] = np.nan
    x[..., 1:2] = -np.inf
    check_kernel(device, "top_k", [x], {"k": k})


@pytest.mark.parametrize(("shape", "layout"), [
    ((4, 6, 3, 3), None), ((4, 8, 3, 3), LAST), ((4, 3, 5, 2), LAST), ((33, 5), None), ((2, 4, 40), None),
    ((700, 8, 1, 1), LAST),
])  # fmt: skip
def test_batch_norm(device, shape, layout):
    x, gamma, beta = random_array(*shape) * 3 + 100, random_array(shape[1], seed=1), random_array(shape[1], seed=2)
    attrs = {"eps": 1e-3, "axis": 1}
    one = [layout, None, None]
    # one sum of 100s, rounded, in float32
    _, mean, var = check_kernel(device, "batch_norm", [x, gamma, beta], attrs, one, one, rtol=1e-4, atol=1e-4)
    g = random_array(*shape, seed=3)
    arrays = [g, x, gamma, mean, var]
    check_kernel(
        device, "batch_norm_grad", arrays, attrs, [layout, layout, None, None, None], one, rtol=1e-3, atol=1e-3
    )
    check_kernel(
        device,
        "batch_norm_inference",
        [x, gamma, beta, mean, var],
        attrs,
        [layout, *[None] * 4],
        [layout],
        rtol=1e-3,
        atol=1e-3,
    )
    for slope in ("relu_grad", "relu6_grad"):
        given, laid = {**attrs, "activation_grad": slope}, [layout, layout, *[None] * 4]
        check_kernel(
            device, "batch_norm_relu_grad", [g, x, 4 * gamma, beta, mean, var], given, laid, one, rtol=1e-3, atol=5e-3
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "layout"), [((4, 8, 3, 3), LAST), ((3, 5, 4, 2), None), ((4, 3, 5, 2), LAST)])
@pytest.mark.parametrize("inference", [False, True])
def test_batch_norm_with_what_follows(device, dtype, shape, layout, inference):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x, other = random_array(*shape).astype(dtype), random_array(*shape, seed=4).astype(dtype)
    vectors = [random_array(shape[1], seed=k + 1) for k in range(2)]
    vectors += [np.abs(random_array(shape[1], seed=k + 3)) for k in range(2)] if inference else []
    n = len(vectors) + 1
    name = "batch_norm_inference" if inference else "batch_norm"
    program = (
        (name, tuple(("in", i) for i in range(n)), (("axis", 1), ("eps", 1e-3))),
        ("add", (("in", n), ("node", 0, 0)), ()),
        ("relu", (("node", 1, 0),), ()),
    )
    kept = () if inference else (("node", 0, 1), ("node", 0, 2))
    attrs = {"program": program, "outputs": (*kept, ("node", 2, 0))}
    arrays = [x, *vectors, other]
    layouts = [layout, *[None] * len(vectors), layout]
    check_kernel(device, "fused", arrays, attrs, layouts, [*[None] * len(kept), layout], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize(("dtype", "shape"), [
    ("float32", (4, 8, 3, 3)), ("bfloat16", (5, 8, 7, 1)), ("float32", (2, 3, 5, 4)),
])  # fmt: skip
def test_batch_norm_s_gradient_with_what_comes_before(device, dtype, shape, wanted):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    big = [random_array(*shape, seed=k).astype(dtype) for k in range(4)]
    gamma, mean, var = (random_array(shape[1], seed=k) for k in range(5, 8))
    var = np.abs(var) + 0.5
    program = (
        ("add", (("in", 0), ("in", 1)), ()),
        ("relu_grad", (("node", 0, 0), ("in", 2)), ()),
        ("batch_norm_grad", (("node", 1, 0), *(("in", k) for k in range(3, 7))), (("axis", 1), ("eps", 1e-3))),
    )
    outputs = (*([("node", 1, 0)] if wanted else []), *(("node", 2, k) for k in range(3)))
    attrs, arrays = {"program": program, "outputs": outputs}, [*big, gamma, mean, var]
    laid_out = [*([LAST] if wanted else []), LAST, None, None]
    # as plans lay outputs: the sum over what it is made of, the vectors' gradients over the statistics
    last = len(outputs) - 1
    attrs["inplace"] = (*([(0, 0)] if wanted else []), (last - 2, 1), (last - 1, 5), (last, 6))
    before = len(device.launched)
    made = run_kernel(device, "fused", arrays, attrs, [LAST] * 4 + [None] * 3, laid_out)
    want = run_on_arrays(lambda *v: OPS["fused"](*v, **attrs), *(a.astype(np.float32) for a in arrays))
    near = 1e-4 if dtype == "float32" else 2.0**-6  # what is written between the sweeps is rounded to 8 bits
    for got, expected in zip(made, want, strict=True):
        np.testing.assert_allclose(got.astype(np.float32), expected, rtol=near, atol=near)
    assert device.launched[before : before + 3] == ["grads_then_last", "grads_end", "grads_apply"]
    # behind an anchor the sweep's first input lies where an output will be
    specs = [Spec(a.shape, a.dtype.name, LAST if a.ndim > 1 else None) for a in arrays]
    outs = tuple(Spec(a.shape, a.dtype.name, LAST if a.ndim > 1 else None) for a in made)

    def later(r):
        return ("node", r[1] + 1, r[2]) if r[0] == "node" else ("node", 0, 0) if r == ("in", 0) else r

    moved = tuple((n, tuple(map(later, refs)), a) for n, refs, a in program)
    given = {
        "program": (("conv", (("in", 0), ("in", 7)), ()), *moved),
        "outputs": tuple(("node", r[1] + 1, r[2]) for r in outputs),
    }
    with use_device(device):
        rest = build_epilogue(given, (*specs, Spec((1,))), outs, specs[0])
        rooms = [guarded_output(o)[0] for o in outs]

        def anchor(inputs, results):
            results[0][...] = inputs[0]

        given_arrays = [with_layout(a, s.layout) for a, s in zip(arrays, specs, strict=True)]
        rest.attach_to(anchor, [0, 7])([*given_arrays, gamma[:1]], rooms)
    for got, expected in zip(rooms, made, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_norms_of_sixteen_bits_with_vectors_of_thirty_two(device):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x, g = random_array(4, 8, 3, 3).astype("bfloat16"), random_array(4, 8, 3, 3, seed=5).astype("bfloat16")
    gamma, beta = random_array(8, seed=1), random_array(8, seed=2)
    one, attrs = [LAST, None, None], {"eps": 1e-3, "axis": 1}
    _, mean, var = check_kernel(device, "batch_norm", [x, gamma, beta], attrs, one, one, rtol=1e-4)
    assert mean.dtype == var.dtype == np.float32
    check_kernel(device, "batch_norm_grad", [g, x, gamma, mean, var], attrs, [LAST, LAST, *[None] * 3], one, rtol=1e-3)
    given, laid = {**attrs, "activation_grad": "relu_grad"}, [LAST, LAST, *[None] * 4]
    check_kernel(device, "batch_norm_relu_grad", [g, x, gamma, beta, mean, var], given, laid, one, rtol=1e-3)
    check_kernel(device, "batch_norm_inference", [x, gamma, beta, mean, var], attrs, [LAST, *[None] * 4], [LAST])
    x, g = x.reshape(4, 72), g.reshape(4, 72)
    gamma, beta, attrs = random_array(72, seed=1), random_array(72, seed=2), {"axis": -1, "eps": 1e-5}
    check_kernel(device, "layer_norm", [x, gamma, beta], attrs)
    check_kernel(device, "layer_norm_grad", [g, x, gamma], attrs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), -1), ((2, 3, 4), (1, 2)), ((70, 3), (1,))])
def test_layer_norm(device, shape, axis):
    x = random_array(*shape) * 2 + 3
    vector = tuple(shape[a] for a in ([axis] if isinstance(axis, int) else axis))
    attrs = {"axis": axis, "eps": 1e-5}
    check_kernel(
        device,
        "layer_norm",
        [x, random_array(*vector, seed=1), random_array(*vector, seed=2)],
        attrs,
        rtol=1e-4,
        atol=1e-5,
    )
    g = random_array(*shape, seed=3)
    check_kernel(device, "layer_norm_grad", [g, x, random_array(*vector, seed=1)], attrs, rtol=1e-4, atol=1e-4)


RECURRENT = [
    ("simple_rnn_sequence", {"activation": "tanh"}),
    ("lstm_sequence", {"activation": "tanh", "recurrent_activation": "sigmoid"}),
    ("lstm_sequence", {"activation": "softsign", "recurrent_activation": "hard_sigmoid"}),
    ("gru_sequence", {"activation": "tanh", "recurrent_activation": "sigmoid", "reset_after": True}),
    ("gru_sequence", {"activation": "tanh", "recurrent_activation": "sigmoid", "reset_after": False}),
    ("gru_sequence", {"activation": "softsign", "recurrent_activation": "hard_sigmoid", "reset_after": False}),
]


@pytest.mark.parametrize(("name", "attrs"), RECURRENT)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_recurrent(device, name, attrs, reverse, masked):
    op, samples, steps, units = OPS[name], 3, 4, 5
    x = random_array(samples, steps, op.gates * units)
    weights = [random_array(units, op.gates * units, seed=1)]
    if op.weights > 1:
        weights.append(random_array(op.gates * units, seed=2))
    states = [random_array(samples, units, seed=3 + j) for j in range(op.states)]
    mask = [np.random.default_rng(0).random((samples, steps)) < 0.6] if masked else []
    attrs = {**attrs, "reverse": reverse, "masked": masked}
    inputs = [x, *weights, *states, *mask]
    made = check_kernel(device, name, inputs, attrs, rtol=1e-4, atol=1e-5)
    after = [made[0], *made[1 + op.states :]]
    grads = [random_array(*a.shape, seed=9 + j) for j, a in enumerate(made[: 1 + op.states])]
    check_kernel(device, f"{name}_grad", [*inputs, *after, *grads], attrs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_recurrent_in_other_types(device, reset_after, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    samples, steps, units = 3, 4, 5
    shapes = [(samples, steps, 3 * units), (units, 3 * units), (3 * units,), (samples, units)]
    inputs = [(random_array(*shape, seed=k) / 2).astype(dtype) for k, shape in enumerate(shapes)]
    attrs = {"reset_after": reset_after, "reverse": True}
    # each product and state is rounded to 8 or 11 bits, and four steps and sums of twelve add such errors up
    tolerance = {"float64": 1e-12, "bfloat16": 16 * 2.0**-8, "float16": 16 * 2.0**-11}[dtype]
    plain = "float64" if dtype == "float64" else "float32"
    name = "gru_sequence"
    for _ in range(2):
        made = run_kernel(device, name, inputs, attrs)
        want = run_on_arrays(partial(OPS[name], **attrs), *(a.astype(plain) for a in inputs))
        for got, expected in zip(made, want, strict=True):
            assert got.dtype.name == dtype
            np.testing.assert_allclose(got.astype(plain), expected, rtol=tolerance, atol=tolerance)
        grads = [(random_array(*a.shape, seed=9 + j) / 2).astype(dtype) for j, a in enumerate(made[:2])]
        name, inputs = "gru_sequence_grad", [*inputs, made[0], *grads]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "layout", "axis"),
    [
        ((3, 8, 5, 2), LAST, (0, 2, 3)),
        ((2, 3, 4, 4), LAST, (0, 2, 3)),
        ((30, 16), None, (0,)),
        ((2, 9, 5), None, (0, 1)),
    ],
)
@pytest.mark.parametrize("keep", [False, True])
def test_a_group_that_ends_in_a_sum(device, dtype, shape, layout, axis, keep):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    g, y = random_array(*shape).astype(dtype), random_array(*shape, seed=1).astype(dtype)
    kept = tuple(1 if i in axis else n for i, n in enumerate(shape))
    scale = random_array(*kept, seed=2).astype(dtype)
    program = (
        ("relu_grad", (("in", 0), ("in", 1)), ()),
        ("multiply", (("node", 0, 0), ("in", 2)), ()),
        ("sum", (("node", 1, 0),), (("axis", axis), ("keepdims", keep))),
    )
    attrs = {"program": program, "outputs": (("node", 1, 0), ("node", 2, 0))}
    check_kernel(device, "fused", [g, y, scale], attrs, [layout, layout, None], [layout, None], rtol=1e-4, atol=1e-5)
    only = {"program": program, "outputs": (("node", 2, 0),)}
    check_kernel(device, "fused", [g, y, scale], only, [layout, layout, None], [None], rtol=1e-4, atol=1e-5)


def test_a_product_and_what_follows_it(device):
    a, b, bias = random_array(6, 9), random_array(9, 12, seed=1), random_array(12, seed=2)
    program = (
        ("matmul", (("in", 0), ("in", 1)), (("transpose_a", False), ("transpose_b", False))),
        ("add", (("node", 0, 0), ("in", 2)), ()),
        ("relu", (("node", 1, 0),), ()),
    )
    attrs = {"program": program, "outputs": (("node", 2, 0),)}
    check_kernel(device, "fused", [a, b, bias], attrs, rtol=1e-5, atol=1e-5)
    both = {"program": program, "outputs": (("node", 0, 0), ("node", 2, 0))}
    check_kernel(device, "fused", [a, b, bias], both, rtol=1e-5, atol=1e-5)


def test_a_product_its_slope_and_the_sum_of_that(device):
    g, w, y = random_array(20, 9), random_array(12, 9, seed=1), random_array(20, 12, seed=2)
    program = (
        ("matmul", (("in", 0), ("in", 1)), (("transpose_b", True),)),
        ("relu_grad", (("node", 0, 0), ("in", 2)), ()),
        ("sum", (("node", 1, 0),), (("axis", (0,)),)),
    )
    attrs = {"program": program, "outputs": (("node", 1, 0), ("node", 2, 0))}
    check_kernel(device, "fused", [g, w, y], attrs, rtol=1e-5, atol=1e-5)


def test_a_product_never_lies_over_what_is_still_read(device):
    # the new weight is written over the old one, so the gradient has no place: the group is not taken
    w, g = Spec((9, 12)), Spec((6, 12))
    program = (
        ("matmul", (("in", 1), ("in", 2)), (("transpose_a", True),)),
        ("sgd_update", (("in", 0), ("node", 0, 0), ("in", 3), ("in", 4)), ()),
    )
    attrs = {"program": program, "outputs": (("node", 1, 0),), "inplace": ((0, 0),)}
    ins = (w, Spec((6, 9)), g, Spec(()), Spec((), "int64"))
    backend = Backend("shim", np, ("cuda",))
    with use_device(device):
        assert not backend.has_kernel(OPS["fused"], ins, (w,), attrs)
