"""The kernels' logic without a GPU: the same `.cu` texts run on the CPU and compared with the plain bodies."""

from __future__ import annotations

import numpy as np
import pytest
from logic_check import LAST, check, laid, room, run
from shim_device import COMPILER, ShimDevice

from prototorch.backends.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.backends.cuda.kernels import casts, matmul, reduce, update
from prototorch.backends.cuda.kernels.fused import ELEMENTWISE
from prototorch.backends.cuda.kernels.launch import using
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update
from prototorch.spec import Spec

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    return ShimDevice(str(tmp_path_factory.mktemp("shim")))


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    """So that few threads make a tile of a product."""
    monkeypatch.setattr(matmul, "TILE", 8)
    monkeypatch.setattr(matmul, "WORK", 4)


def numbers(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


UNARY = ("negative", "exp", "sqrt", "absolute", "sign", "round", "tanh", "relu", "gelu", "sigmoid", "softplus", "erf")


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary(device, name, dtype):
    x = numbers(5, 7, dtype=dtype)
    x = np.abs(x) if name == "sqrt" else x
    attrs = {}
    check(device, name, [x], attrs)


def test_every_activation_gradient(device):
    x, g = numbers(3, 8), numbers(3, 8, seed=1)
    attrs = {"leaky_relu_grad": {"negative_slope": 0.2}, "elu_grad": {"alpha": 1.0}, "gelu_grad": {"approximate": True}}
    for name in ELEMENTWISE:
        if name.endswith("_grad"):
            check(device, name, [g, x], attrs.get(name, {}))


@pytest.mark.parametrize(
    ("a", "b"),
    [((4, 8), (4, 8)), ((4, 8), ()), ((2, 3, 5), (3, 1)), ((4, 1, 6), (1, 5, 1)), ((3, 1), (3, 4)), ((1,), (1,))],
)
def test_broadcasting(device, a, b):
    check(device, "add", [numbers(*a), numbers(*b, seed=1)])
    check(device, "less", [numbers(*a), numbers(*b, seed=1)])


def test_channels_last(device):
    x, bias = numbers(2, 6, 3, 5), numbers(1, 6, 1, 1, seed=1)
    check(device, "add", [x, bias], layouts=[LAST, None], out_layouts=[LAST])
    check(device, "multiply", [x, x + 1], layouts=[LAST, None], out_layouts=[LAST])


def test_whole_numbers(device):
    a = np.array([-7, 7, -6, 5, 2**31 - 1], np.int32)
    b = np.array([2, -2, 3, 5, 1], np.int32)
    for name in ("add", "multiply", "floor_divide", "remainder", "maximum", "equal"):
        check(device, name, [a, b])
    check(device, "cast", [a], {"dtype": "float32"})
    check(device, "cast", [numbers(9) * 10], {"dtype": "int32"})
    check(device, "where", [a > 0, a, b])


def test_nan_wins(device):
    a, b = np.array([np.nan, 1, np.nan], np.float32), np.array([1, np.nan, np.nan], np.float32)
    for name in ("maximum", "minimum"):
        assert np.isnan(run(device, name, [a, b])[0]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(device, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    with np.errstate(over="ignore"):
        x = np.concatenate([numbers(13), [0, -0.0, np.inf, -np.inf, 1e-8, 6e-5, 70000, 65519.9]]).astype(dtype)
    check(device, "relu", [x])
    check(device, "add", [x, x])
    whole = np.arange(1 << 16, dtype=np.uint16).view(np.dtype(dtype))
    made = run(device, "cast", [whole], {"dtype": "float32"})[0]
    np.testing.assert_array_equal(made, whole.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.concatenate([made, made * np.float32(1.0004), made * np.float32(1.01)])
        wide = wide[np.isfinite(wide)]
        np.testing.assert_array_equal(run(device, "cast", [wide], {"dtype": dtype})[0], wide.astype(dtype))


def test_fused_group(device):
    program = (
        ("add", (("in", 0), ("in", 1)), ()),
        ("relu", (("node", 0, 0),), ()),
        ("multiply", (("node", 1, 0), ("const", 0.5, "float32")), ()),
    )
    attrs = {"program": program, "outputs": (("node", 0, 0), ("node", 2, 0))}
    check(device, "fused", [numbers(2, 8, 3, 3), numbers(1, 8, 1, 1, seed=1)], attrs)
    arrays = [numbers(2, 8, 3, 3), numbers(1, 8, 1, 1, seed=1)]
    check(device, "fused", arrays, attrs, layouts=[LAST, None], out_layouts=[LAST, LAST])


POOLS = [
    ((2, 3, 7, 7), {"kernel": (3, 3), "strides": (2, 2), "pads": ((0, 0), (0, 0)), "ceil": False}),
    ((2, 8, 6, 5), {"kernel": (2, 3), "strides": (1, 2), "pads": ((1, 0), (0, 2)), "ceil": True}),
    ((1, 2, 9), {"kernel": (4,), "strides": (3,), "pads": ((1, 2),), "ceil": False}),
    ((1, 4, 4, 5, 3), {"kernel": (2, 2, 2), "strides": (2, 1, 2), "pads": ((0, 1), (1, 1), (0, 0)), "ceil": True}),
]


@pytest.mark.parametrize(("shape", "attrs"), POOLS)
@pytest.mark.parametrize("layout", [None, LAST])
def test_pooling(device, shape, attrs, layout):
    x = np.round(numbers(*shape), 1)  # with equal elements
    x.reshape(-1)[3] = np.nan
    _, number = check(device, "max_pool", [x], attrs, [layout], [layout, layout])
    g = numbers(*number.shape, seed=1)
    size = {"size": shape[2:], **attrs}
    check(device, "max_unpool", [g, number], size, [layout, layout], [layout])
    check(device, "pick_pooled", [numbers(*shape), number], attrs, [layout, layout], [layout])
    for include in (False, True):
        more = {**attrs, "include_pad": include}
        check(device, "avg_pool", [numbers(*shape)], more, [layout], [layout])
        check(device, "avg_unpool", [g], {"size": shape[2:], **more}, [layout], [layout])


UPDATES = {
    "sgd_update": {"l2": 0.1}, "momentum_update": {"momentum": 0.9, "nesterov": True, "decay": 0.01},
    "adam_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "decay": 0.01},
    "amsgrad_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "rmsprop_update": {"rho": 0.9, "epsilon": 1e-7},
    "rmsprop_momentum_update": {"rho": 0.9, "momentum": 0.5, "epsilon": 1e-7},
    "centered_rmsprop_update": {"rho": 0.9, "momentum": 0.5, "epsilon": 9.0},
    "adagrad_update": {"epsilon": 1e-7}, "adadelta_update": {"rho": 0.9, "epsilon": 1e-7},
    "adamax_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}, "lion_update": {"beta_1": 0.9, "beta_2": 0.99},
}  # fmt: skip


def _update_inputs(name, size, seed=0):
    slots = [np.abs(numbers(size, seed=seed + 3 + k)) for k in range(OPS[name].slots)]
    scalars = [np.float32(0.01).reshape(()), np.int64(7).reshape(())]
    return [numbers(size, seed=seed), numbers(size, seed=seed + 1), *scalars, *slots]


@pytest.mark.parametrize("name", sorted(UPDATES))
def test_updates(device, name):
    # alpha of Adam is made of two powers, whose last bits the C library rounds in its own way
    check(device, name, _update_inputs(name, 37), UPDATES[name], rtol=1e-5)


def test_every_update_is_tried():
    # Nadam sums a row of 59 terms, which is left to the plain body
    assert {*UPDATES, "nadam_update"} == {n for n, op in OPS.items() if isinstance(op, Update)}


def test_updates_of_many_weights_are_one_launch(device):
    name, attrs, calls, wanted = "momentum_update", {"momentum": 0.9}, [], []
    for k, size in enumerate((5, update.CHUNK + 3, 64)):
        arrays = [laid(a, None) for a in _update_inputs(name, size, seed=10 * k)]
        ins = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
        outs = OPS[name].rule(*ins, **attrs)
        with using(device):
            runner = update.prepared(name, ins, outs, attrs)
        calls.append((runner, arrays, [room(o)[0] for o in outs]))
        wanted.append(OPS[name].plain(np, *arrays, **attrs))
    one = update.combined(calls)
    assert len(one) == 1
    before = len(device.launched)
    for runner, ins, outs in one:
        runner(ins, outs)
    assert device.launched[before:] == ["updates"]
    for (_, _, made), want in zip(calls, wanted, strict=True):
        for a, b in zip(made, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
    for flag in (0, 1):
        for _, _, made in calls:
            for a in made:
                a.fill(7)
        one[0][0].gated(np.array([flag], np.int32))((), ())
        for (_, _, made), want in zip(calls, wanted, strict=True):
            for a, b in zip(made, want, strict=True):
                np.testing.assert_allclose(a, b if flag else np.full_like(a, 7), rtol=2e-6, atol=1e-6)


def test_a_gated_kernel_of_several_launches(device):
    x, made = laid(numbers(300, 9), None), room(Spec((9,)))[0]
    with using(device):
        runner = reduce.reduction("sum", Spec(x.shape), Spec((9,)), (0,))
        assert len(runner.launches) > 1
        made.fill(7)
        runner.gated(np.zeros(1, np.int32))([x], [made])
        assert (made == 7).all()
        runner.gated(np.ones(1, np.int32))([x], [made])
    np.testing.assert_allclose(made, x.sum(axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), -1), ((3, 7, 4), 1), ((2, 3), 0), ((4, 1), -1)])
def test_softmax(device, shape, axis):
    x, g = numbers(*shape) * 5, numbers(*shape, seed=1)
    (y,) = check(device, "softmax", [x], {"axis": axis})
    check(device, "log_softmax", [x], {"axis": axis}, rtol=1e-5)
    check(device, "softmax_grad", [g, y], {"axis": axis})


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_cross_entropy(device, dtype):
    x, labels = numbers(5, 11) * 4, np.array([0, 10, 3, 3, 7], dtype)
    check(device, "sparse_softmax_cross_entropy", [x, labels], rtol=1e-5)
    check(device, "sparse_softmax_cross_entropy_grad", [numbers(5, seed=1), x, labels])


def test_cross_entropy_of_a_class_that_is_not_there(device):
    assert np.isnan(run(device, "sparse_softmax_cross_entropy", [numbers(1, 3), np.array([3], np.int32)])[0]).all()


@pytest.mark.parametrize("mask", [None, (2, 3, 5, 6), (2, 1, 1, 6), (5, 6)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights(device, mask, causal):
    arrays = [numbers(2, 3, 5, 4), numbers(2, 3, 6, 4, seed=1)]
    if mask:
        arrays.append(np.random.default_rng(2).random(mask) < 0.7)
    check(device, "attention_weights", arrays, {"causal": causal})


PRODUCTS = [
    ((3, 4), (4, 5), {}), ((70, 33), (33, 65), {}), ((4, 3), (4, 5), {"transpose_a": True}),
    ((3, 4), (5, 4), {"transpose_b": True}), ((4, 3), (5, 4), {"transpose_a": True, "transpose_b": True}),
    ((2, 3, 4, 5), (5, 2), {}), ((7, 6), (2, 3, 6, 5), {}), ((2, 1, 4, 5), (3, 5, 2), {}),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "attrs"), PRODUCTS)
def test_products(device, a, b, attrs):
    check(device, "matmul", [numbers(*a), numbers(*b, seed=1)], attrs, rtol=1e-5, atol=1e-5)


REDUCED = [((5, 7), None), ((5, 7), 0), ((5, 7), 1), ((2, 3, 4, 5), (0, 2, 3)), ((2, 3, 4, 5), (1,)), ((300, 9), 0),
           ((9, 3000), 1), ((4000,), 0), ((2, 1, 3), (0, 2)), ((2, 3, 2, 2, 2), (1, 3))]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), REDUCED)
def test_reductions(device, shape, axis):
    x = numbers(*shape)
    for name in ("sum", "mean", "max"):
        check(device, name, [x], {"axis": axis}, rtol=1e-5, atol=1e-5)
    check(device, "min", [x], {"axis": axis, "keepdims": True})
    check(device, "any", [x > 2], {"axis": axis})
    check(device, "sum", [(x * 10).astype(np.int32)], {"axis": axis})


def test_reductions_of_channels_last(device):
    x = numbers(3, 8, 5, 4)
    for axis in ((0, 2, 3), (2, 3), (1,), None):
        for keep in (True, False):
            check(device, "sum", [x], {"axis": axis, "keepdims": keep}, [LAST], rtol=1e-5, atol=1e-5)


def test_nan_of_a_reduction_is_seen(device):
    x = numbers(4, 50)
    x[1, 30] = np.nan
    made = run(device, "max", [x], {"axis": 1})[0]
    assert np.isnan(made).tolist() == [False, True, False, False]


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), 1), ((3, 7, 4), 1), ((4, 2), 0), ((2, 1), 1)])
def test_arguments(device, shape, axis):
    x = np.round(numbers(*shape))  # with equal elements
    check(device, "argmax", [x], {"axis": axis})
    check(device, "argmin", [x], {"axis": axis})
    x[0, ...] = np.nan
    check(device, "argmax", [x], {"axis": axis})


@pytest.mark.parametrize(("shape", "layout"), [
    ((4, 6, 3, 3), None), ((4, 8, 3, 3), LAST), ((4, 3, 5, 2), LAST), ((33, 5), None), ((2, 4, 40), None),
    ((700, 8, 1, 1), LAST),
])  # fmt: skip
def test_batch_norm(device, shape, layout):
    x, gamma, beta = numbers(*shape) * 3 + 100, numbers(shape[1], seed=1), numbers(shape[1], seed=2)
    attrs = {"eps": 1e-3, "axis": 1}
    one = [layout, None, None]
    # one sum of 100s, rounded, in float32
    _, mean, var = check(device, "batch_norm", [x, gamma, beta], attrs, one, one, rtol=1e-4, atol=1e-4)
    g = numbers(*shape, seed=3)
    arrays = [g, x, gamma, mean, var]
    check(device, "batch_norm_grad", arrays, attrs, [layout, layout, None, None, None], one, rtol=1e-3, atol=1e-3)
    check(device, "batch_norm_inference", [x, gamma, beta, mean, var], attrs, [layout, *[None] * 4], [layout],
          rtol=1e-3, atol=1e-3)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "layout"), [((4, 8, 3, 3), LAST), ((3, 5, 4, 2), None), ((4, 3, 5, 2), LAST)])
@pytest.mark.parametrize("inference", [False, True])
def test_batch_norm_with_what_follows(device, dtype, shape, layout, inference):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x, other = numbers(*shape).astype(dtype), numbers(*shape, seed=4).astype(dtype)
    vectors = [numbers(shape[1], seed=k + 1) for k in range(2)]
    vectors += [np.abs(numbers(shape[1], seed=k + 3)) for k in range(2)] if inference else []
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
    check(device, "fused", arrays, attrs, layouts, [*[None] * len(kept), layout], rtol=1e-3, atol=1e-4)


def test_norms_of_sixteen_bits_with_vectors_of_thirty_two(device):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x, g = numbers(4, 8, 3, 3).astype("bfloat16"), numbers(4, 8, 3, 3, seed=5).astype("bfloat16")
    gamma, beta = numbers(8, seed=1), numbers(8, seed=2)
    one, attrs = [LAST, None, None], {"eps": 1e-3, "axis": 1}
    _, mean, var = check(device, "batch_norm", [x, gamma, beta], attrs, one, one, rtol=1e-4)
    assert mean.dtype == var.dtype == np.float32
    check(device, "batch_norm_grad", [g, x, gamma, mean, var], attrs, [LAST, LAST, *[None] * 3], one, rtol=1e-3)
    check(device, "batch_norm_inference", [x, gamma, beta, mean, var], attrs, [LAST, *[None] * 4], [LAST])
    x, g = x.reshape(4, 72), g.reshape(4, 72)
    gamma, beta, attrs = numbers(72, seed=1), numbers(72, seed=2), {"axis": -1, "eps": 1e-5}
    check(device, "layer_norm", [x, gamma, beta], attrs)
    check(device, "layer_norm_grad", [g, x, gamma], attrs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), -1), ((2, 3, 4), (1, 2)), ((70, 3), (1,))])
def test_layer_norm(device, shape, axis):
    x = numbers(*shape) * 2 + 3
    vector = tuple(shape[a] for a in ([axis] if isinstance(axis, int) else axis))
    attrs = {"axis": axis, "eps": 1e-5}
    check(device, "layer_norm", [x, numbers(*vector, seed=1), numbers(*vector, seed=2)], attrs, rtol=1e-4, atol=1e-5)
    g = numbers(*shape, seed=3)
    check(device, "layer_norm_grad", [g, x, numbers(*vector, seed=1)], attrs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("beta", [0.75, 0.5, 0.6])
@pytest.mark.parametrize("layout", [None, LAST])
def test_lrn(device, beta, layout):
    x, attrs = numbers(2, 7, 3, 2), {"size": 5, "alpha": 0.3, "beta": beta, "k": 2.0}
    _, base = check(device, "lrn", [x], attrs, [layout], [layout, layout], rtol=1e-5)
    check(device, "lrn_grad", [numbers(2, 7, 3, 2, seed=1), x, base], attrs, [layout] * 3, [layout], rtol=1e-5)


KEY = np.array([(1 << 63) + 12345, 77], np.uint64)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.99999])
@pytest.mark.parametrize("shape", [(5, 16), (7, 3), (1,), (40,)])
def test_dropout_draws_the_bits_of_the_cpu(device, rate, shape):
    check(device, "dropout", [numbers(*shape), KEY], {"rate": rate, "site": 3})


def test_dropout_of_shared_draws_and_of_channels_last(device):
    x, attrs = numbers(3, 4, 2, 5), {"rate": 0.5, "site": 2**40 + 1}
    check(device, "dropout", [x, KEY], {**attrs, "noise_shape": (3, 4, 1, 1)})
    check(device, "dropout", [x, KEY], attrs, [LAST, None], [LAST])
    check(device, "dropout", [x, KEY], {**attrs, "noise_shape": (3, 1, 2, 1)}, [LAST, None], [LAST])


def test_random_numbers_are_those_of_the_cpu(device):
    for shape in ((3,), (5, 7), (64,)):
        check(device, "random_bits", [KEY], {"site": 9, "shape": shape})
        check(device, "random_uniform", [KEY], {"site": 9, "shape": shape})
        check(device, "random_uniform", [KEY], {"site": 9, "shape": shape, "low": -2.0, "high": 3.0})


def test_reordering(device):
    x = numbers(2, 5, 3, 4)
    check(device, "reorder", [x], {"layout": LAST}, [None], [LAST])
    check(device, "reorder", [x], {"layout": None}, [LAST], [None])
    x = numbers(2, 40, 33)
    check(device, "reorder", [x], {"layout": LAST}, [None], [LAST])


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2), (2, 3, 0, 1), (0, 2, 3, 1)])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 33, 1, 40), (2, 2, 1, 8)])
def test_transposing(device, order, shape):
    check(device, "transpose", [numbers(*shape)], {"order": order})


@pytest.mark.parametrize("layout", [None, LAST])
def test_parts_and_joins(device, layout):
    x = numbers(3, 8, 5, 4)
    part = {"start": (1, 2, 0, 1), "stop": (3, 7, 5, 4), "step": (1, 2, 3, 1)}
    check(device, "slice", [x], part, [layout], [layout])
    whole = {"start": (1, 0, 0, 0), "stop": (3, 4, 5, 4), "step": (1, 1, 1, 1)}
    (y,) = check(device, "slice", [x], whole, [layout], [layout])
    check(device, "unslice", [y], {"shape": x.shape, **whole}, [layout], [layout])
    check(device, "flip", [x], {"axis": (1, 3)}, [layout], [layout])
    check(device, "concat", [x, x[:, :3], x[:, :4]], {"axis": 1}, [layout] * 3, [layout])
    check(device, "concat", [x, x[:1]], {"axis": 0}, [layout] * 2, [layout])
    pads = ((0, 0), (1, 2), (0, 3), (2, 0))
    check(device, "pad", [x], {"pads": pads, "value": -1.5}, [layout], [layout])


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_with_its_own(device, mode):
    check(device, "pad", [numbers(2, 5, 3)], {"pads": ((0, 0), (2, 3), (0, 0)), "mode": mode})


def test_bytes_move_too(device):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    check(device, "transpose", [x], {"order": (2, 1, 0)})
    check(device, "concat", [x > 3, x > 9], {"axis": 2})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_looking_up(device, dtype):
    table, indices = numbers(5, 3, 2), np.array([[0, 4, 2], [2, 2, -1], [5, 0, 0]], dtype)
    check(device, "take", [table, indices])
    check(device, "put_rows", [numbers(3, 3, 3, 2), indices], {"rows": 5})
    along = np.array([[0, 3], [2, 2], [1, 0]], dtype)
    check(device, "take_along", [numbers(3, 4), along])
    check(device, "put_along", [numbers(3, 2), along], {"size": 4})
    check(device, "one_hot", [indices], {"classes": 5})
    check(device, "iota", [], {"size": 7})


def test_fixed_places(device):
    attrs = {"indices": (2, 0, 0, 3), "axis": 1}
    check(device, "gather", [numbers(2, 4, 3)], attrs)
    check(device, "scatter_rows", [numbers(2, 4, 3)], {**attrs, "size": 5})
    for reverse in (False, True):
        check(device, "cumsum", [numbers(2, 5, 3)], {"axis": 1, "reverse": reverse})


RECURRENT = [
    ("simple_rnn_sequence", {"activation": "tanh"}),
    ("lstm_sequence", {"activation": "tanh", "recurrent_activation": "sigmoid"}),
    ("lstm_sequence", {"activation": "softsign", "recurrent_activation": "hard_sigmoid"}),
    ("gru_sequence", {"activation": "tanh", "recurrent_activation": "sigmoid", "reset_after": True}),
]


@pytest.mark.parametrize(("name", "attrs"), RECURRENT)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_recurrent(device, name, attrs, reverse, masked):
    op, samples, steps, units = OPS[name], 3, 4, 5
    x = numbers(samples, steps, op.gates * units)
    weights = [numbers(units, op.gates * units, seed=1)]
    if op.weights > 1:
        weights.append(numbers(op.gates * units, seed=2))
    states = [numbers(samples, units, seed=3 + j) for j in range(op.states)]
    mask = [np.random.default_rng(0).random((samples, steps)) < 0.6] if masked else []
    attrs = {**attrs, "reverse": reverse, "masked": masked}
    inputs = [x, *weights, *states, *mask]
    made = check(device, name, inputs, attrs, rtol=1e-4, atol=1e-5)
    after = [made[0], *made[1 + op.states :]]
    grads = [numbers(*a.shape, seed=9 + j) for j, a in enumerate(made[: 1 + op.states])]
    check(device, f"{name}_grad", [*inputs, *after, *grads], attrs, rtol=1e-4, atol=1e-5)


def test_casts_of_many_arrays_are_one_launch(device):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    shapes = [(5,), (3, 7, 2), (casts.CHUNK + 5,), (1,), (64,)]
    program = tuple(("cast", (("in", i),), (("dtype", "bfloat16"),)) for i in range(len(shapes)))
    attrs = {"program": program, "outputs": tuple(("node", i, 0) for i in range(len(shapes)))}
    arrays = [laid(numbers(*s, seed=i), None) for i, s in enumerate(shapes)]
    ins, outs = [Spec(s) for s in shapes], [Spec(s, "bfloat16") for s in shapes]
    with using(device):
        runner = casts.casts(tuple(ins), tuple(outs), attrs)
    made = [room(o)[0] for o in outs]
    before = len(device.launched)
    runner(arrays, made)
    assert device.launched[before:] == ["casts"]
    for a, b in zip(arrays, made, strict=True):
        np.testing.assert_array_equal(b, a.astype("bfloat16"))


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
    g, y = numbers(*shape).astype(dtype), numbers(*shape, seed=1).astype(dtype)
    kept = tuple(1 if i in axis else n for i, n in enumerate(shape))
    scale = numbers(*kept, seed=2).astype(dtype)
    program = (
        ("relu_grad", (("in", 0), ("in", 1)), ()),
        ("multiply", (("node", 0, 0), ("in", 2)), ()),
        ("sum", (("node", 1, 0),), (("axis", axis), ("keepdims", keep))),
    )
    attrs = {"program": program, "outputs": (("node", 1, 0), ("node", 2, 0))}
    check(device, "fused", [g, y, scale], attrs, [layout, layout, None], [layout, None], rtol=1e-4, atol=1e-5)
    only = {"program": program, "outputs": (("node", 2, 0),)}
    check(device, "fused", [g, y, scale], only, [layout, layout, None], [None], rtol=1e-4, atol=1e-5)
