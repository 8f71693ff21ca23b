"""The logic of the GPU kernels, run on the CPU from the same text: elementwise groups, pooling, updates."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.cuda.kernels import elementwise, multi_tensor_cast, optimizer_update, reduce
from prototorch.cuda.kernels.elementwise import is_elementwise
from prototorch.cuda.kernels.launch import use_device
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer, TracedScalar, UntraceableError
from prototorch.engine.backends.core import Backend
from prototorch.ops.elementwise import UnaryOp
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update
from prototorch.spec import Spec
from tests.cuda.offline.kernel_logic import LAST, check_kernel, guarded_output, random_array, run_kernel, with_layout
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)


UNARY = ("negative", "exp", "sqrt", "abs", "sign", "round", "tanh", "relu", "gelu", "sigmoid", "softplus", "erf")


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary(device, name, dtype):
    x = random_array(5, 7, dtype=dtype)
    x = np.abs(x) if name == "sqrt" else x
    attrs = {}
    check_kernel(device, name, [x], attrs)


@pytest.mark.parametrize("name", ["isnan", "isinf"])
def test_nan_and_infinity(device, name):
    """Their reference implementations compare an array with itself by ``!=``."""
    x = np.array([0.0, np.nan, np.inf, -np.inf, 3e38, -1.0, 1e-40], np.float32)
    check_kernel(device, name, [x])
    check_kernel(device, name, [x.astype(np.float64)])


def test_a_traced_comparison_is_an_expression():
    """Python's own ``==`` and truth of an object would be a constant of the kernel."""
    module = ScalarTracer()
    a, b = (TracedScalar(module, name, "float32") for name in "ab")
    equal, different = a == b, a != 0
    assert (equal.dtype, different.dtype) == ("bool", "bool")
    assert module.lines == ["bool v0 = a == b;", "bool v1 = a != 0.0f;"]
    with pytest.raises(UntraceableError, match="branch"):
        bool(equal)


def test_every_activation_gradient(device):
    x, g = random_array(3, 8), random_array(3, 8, seed=1)
    attrs = {"leaky_relu_grad": {"negative_slope": 0.2}, "elu_grad": {"alpha": 1.0}, "gelu_grad": {"approximate": True}}
    for name in OPS:
        if name.endswith("_grad") and is_elementwise(name):
            check_kernel(device, name, [g, x], attrs.get(name, {}))


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["relu_grad", "relu6_grad", "hard_sigmoid_grad", "hard_swish_grad"])
def test_a_gradient_that_does_not_pass_is_0(device, name, bad):
    x = np.where(np.arange(24) % 2, -4.0, 0.5).astype(np.float32)
    (dx,) = check_kernel(device, name, [np.where(x < 0, bad, 1).astype(np.float32), x])
    assert (dx[x < 0] == 0).all()
    assert (dx[x > 0] > 0).all()


def test_a_gradient_that_does_not_pass_is_0_in_fused_kernels(device):
    x = np.random.default_rng(0).uniform(1, 2, (4, 8, 3, 3)).astype(np.float32)
    x[::2] *= -1
    g = np.where(x < 0, np.inf, 1).astype(np.float32)
    one, zero = np.ones(8, np.float32), np.zeros(8, np.float32)
    norm = {"activation_grad": "relu_grad", "eps": 1e-3}
    lrn = {"size": 1, "alpha": 0.1, "beta": 0.75, "k": 2.0, "through_relu": True}
    for layout in (None, LAST):
        arrays, layouts = [g, x, one, zero, zero, one], [layout, layout, *[None] * 4]
        made = check_kernel(device, "batch_norm_relu_grad", arrays, norm, layouts, [layout, None, None], 1e-4, 1e-4)
        assert all(np.isfinite(m).all() for m in made)
    only = np.where(x[:, :1] < 0, np.inf, 1).astype(np.float32)  # one channel, so that none has an infinite neighbour
    (dx,) = check_kernel(device, "lrn_recompute_grad", [only, np.maximum(x[:, :1], 0)], lrn, rtol=1e-4, atol=1e-4)
    assert np.isfinite(dx).all()


@pytest.mark.parametrize(
    ("a", "b"),
    [((4, 8), (4, 8)), ((4, 8), ()), ((2, 3, 5), (3, 1)), ((4, 1, 6), (1, 5, 1)), ((3, 1), (3, 4)), ((1,), (1,))],
)
def test_broadcasting(device, a, b):
    check_kernel(device, "add", [random_array(*a), random_array(*b, seed=1)])
    check_kernel(device, "less", [random_array(*a), random_array(*b, seed=1)])


def test_channels_last(device):
    x, bias = random_array(2, 6, 3, 5), random_array(1, 6, 1, 1, seed=1)
    check_kernel(device, "add", [x, bias], layouts=[LAST, None], out_layouts=[LAST])
    check_kernel(device, "multiply", [x, x + 1], layouts=[LAST, None], out_layouts=[LAST])


def test_whole_numbers(device):
    a = np.array([-7, 7, -6, 5, 2**31 - 1], np.int32)
    b = np.array([2, -2, 3, 5, 1], np.int32)
    for name in ("add", "multiply", "floor_divide", "remainder", "maximum", "equal"):
        check_kernel(device, name, [a, b])
    check_kernel(device, "cast", [a], {"dtype": "float32"})
    check_kernel(device, "cast", [random_array(9) * 10], {"dtype": "int32"})
    check_kernel(device, "where", [a > 0, a, b])


def test_nan_wins(device):
    a, b = np.array([np.nan, 1, np.nan], np.float32), np.array([1, np.nan, np.nan], np.float32)
    for name in ("maximum", "minimum"):
        assert np.isnan(run_kernel(device, name, [a, b])[0]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(device, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    with np.errstate(over="ignore"):
        x = np.concatenate([random_array(13), [0, -0.0, np.inf, -np.inf, 1e-8, 6e-5, 70000, 65519.9]]).astype(dtype)
    check_kernel(device, "relu", [x])
    check_kernel(device, "add", [x, x])
    whole = np.arange(1 << 16, dtype=np.uint16).view(np.dtype(dtype))
    made = run_kernel(device, "cast", [whole], {"dtype": "float32"})[0]
    np.testing.assert_array_equal(made, whole.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.concatenate([made, made * np.float32(1.0004), made * np.float32(1.01)])
        wide = wide[np.isfinite(wide)]
        np.testing.assert_array_equal(run_kernel(device, "cast", [wide], {"dtype": dtype})[0], wide.astype(dtype))


def test_fused_group(device):
    program = (
        ("add", (("in", 0), ("in", 1)), ()),
        ("relu", (("node", 0, 0),), ()),
        ("multiply", (("node", 1, 0), ("const", 0.5, "float32")), ()),
    )
    attrs = {"program": program, "outputs": (("node", 0, 0), ("node", 2, 0))}
    check_kernel(device, "fused", [random_array(2, 8, 3, 3), random_array(1, 8, 1, 1, seed=1)], attrs)
    arrays = [random_array(2, 8, 3, 3), random_array(1, 8, 1, 1, seed=1)]
    check_kernel(device, "fused", arrays, attrs, layouts=[LAST, None], out_layouts=[LAST, LAST])


POOLS = [
    ((2, 3, 7, 7), {"kernel": (3, 3), "strides": (2, 2), "pads": ((0, 0), (0, 0)), "ceil": False}),
    ((2, 8, 6, 5), {"kernel": (2, 3), "strides": (1, 2), "pads": ((1, 0), (0, 2)), "ceil": True}),
    ((1, 2, 9), {"kernel": (4,), "strides": (3,), "pads": ((1, 2),), "ceil": False}),
    ((1, 4, 4, 5, 3), {"kernel": (2, 2, 2), "strides": (2, 1, 2), "pads": ((0, 1), (1, 1), (0, 0)), "ceil": True}),
]


@pytest.mark.parametrize(("shape", "attrs"), POOLS)
@pytest.mark.parametrize("layout", [None, LAST])
def test_pooling(device, shape, attrs, layout):
    x = np.round(random_array(*shape), 1)  # with equal elements
    x.reshape(-1)[3] = np.nan
    _, number = check_kernel(device, "max_pool", [x], attrs, [layout], [layout, layout])
    g = random_array(*number.shape, seed=1)
    size = {"size": shape[2:], **attrs}
    check_kernel(device, "max_pool_grad", [g, number], size, [layout, layout], [layout])
    check_kernel(device, "gather_pool_indices", [random_array(*shape), number], attrs, [layout, layout], [layout])
    for include in (False, True):
        more = {**attrs, "include_pad": include}
        check_kernel(device, "avg_pool", [random_array(*shape)], more, [layout], [layout])
        check_kernel(device, "avg_pool_grad", [g], {"size": shape[2:], **more}, [layout], [layout])


UPDATES = {
    "sgd_update": {"l2": 0.1}, "momentum_update": {"momentum": 0.9, "nesterov": True, "decay": 0.01},
    "adam_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "decay": 0.01},
    "amsgrad_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "nadam_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "decay": 0.01},
    "rmsprop_update": {"rho": 0.9, "epsilon": 1e-7},
    "rmsprop_momentum_update": {"rho": 0.9, "momentum": 0.5, "epsilon": 1e-7},
    "centered_rmsprop_update": {"rho": 0.9, "momentum": 0.5, "epsilon": 9.0},
    "adagrad_update": {"epsilon": 1e-7}, "adadelta_update": {"rho": 0.9, "epsilon": 1e-7},
    "adamax_update": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}, "lion_update": {"beta_1": 0.9, "beta_2": 0.99},
}  # fmt: skip


def _update_inputs(name, size, seed=0):
    slots = [np.abs(random_array(size, seed=seed + 3 + k)) for k in range(OPS[name].slots)]
    scalars = [np.float32(0.01).reshape(()), np.int64(7).reshape(())]
    return [random_array(size, seed=seed), random_array(size, seed=seed + 1), *scalars, *slots]


@pytest.mark.parametrize("name", sorted(UPDATES))
def test_updates(device, name):
    # alpha of Adam is made of two powers, whose last bits the C library rounds in its own way
    check_kernel(device, name, _update_inputs(name, 37), UPDATES[name], rtol=1e-5)


def test_every_update_is_tried():
    assert {*UPDATES} == {n for n, op in OPS.items() if isinstance(op, Update)}


def test_updates_of_many_weights_are_one_launch(device):
    name, attrs, calls, wanted = "momentum_update", {"momentum": 0.9}, [], []
    for k, size in enumerate((5, optimizer_update.CHUNK + 3, 64)):
        arrays = [with_layout(a, None) for a in _update_inputs(name, size, seed=10 * k)]
        ins = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
        outs = OPS[name].infer_spec(*ins, **attrs)
        with use_device(device):
            runner = optimizer_update.prepare_update(name, ins, outs, attrs)
        calls.append((runner, arrays, [guarded_output(o)[0] for o in outs]))
        wanted.append(OPS[name].reference(np, *arrays, **attrs))
    one = optimizer_update.fuse_updates(calls)
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
        one[0][0].make_conditional(np.array([flag], np.int32))((), ())
        for (_, _, made), want in zip(calls, wanted, strict=True):
            for a, b in zip(made, want, strict=True):
                np.testing.assert_allclose(a, b if flag else np.full_like(a, 7), rtol=2e-6, atol=1e-6)


def test_running_statistics_of_many_layers_are_one_launch(device):
    program = (
        ("multiply", (("in", 0), ("const", 0.9, "float32")), ()),
        ("multiply", (("in", 1), ("const", 0.1, "float32")), ()),
        ("add", (("node", 0, 0), ("node", 1, 0)), ()),
    )
    calls, wanted = [], []
    for k, size in enumerate((3, 70, 1)):
        arrays = [with_layout(random_array(size, seed=2 * k + i), None) for i in range(2)]
        spec = Spec((size,))
        with use_device(device):
            runner = elementwise.fused_elementwise(
                (spec, spec), (spec,), {"program": program, "outputs": (("node", 2, 0),)}
            )
        calls.append((runner, arrays, [guarded_output(spec)[0]]))
        wanted.append(arrays[0] * np.float32(0.9) + arrays[1] * np.float32(0.1))
    joined = optimizer_update.fuse_updates(calls)
    assert [runner is calls[2][0] for runner, _, _ in joined] == [False, True], "a single number stays by itself"
    for runner, ins, outs in joined:
        runner(ins, outs)
    for (_, _, (made,)), want in zip(calls, wanted, strict=True):
        np.testing.assert_allclose(made, want, rtol=2e-6)


def test_a_gated_kernel_of_several_launches(device):
    x, made = with_layout(random_array(300, 9), None), guarded_output(Spec((9,)))[0]
    with use_device(device):
        runner = reduce.reduce_launches("sum", Spec(x.shape), Spec((9,)), (0,))
        assert len(runner.launches) > 1
        made.fill(7)
        runner.make_conditional(np.zeros(1, np.int32))([x], [made])
        assert (made == 7).all()
        runner.make_conditional(np.ones(1, np.int32))([x], [made])
    np.testing.assert_allclose(made, x.sum(axis=0), rtol=1e-5, atol=1e-5)


def test_casts_of_many_arrays_are_one_launch(device):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    shapes = [(5,), (3, 7, 2), (multi_tensor_cast.CHUNK + 5,), (1,), (64,)]
    program = tuple(("cast", (("in", i),), (("dtype", "bfloat16"),)) for i in range(len(shapes)))
    attrs = {"program": program, "outputs": tuple(("node", i, 0) for i in range(len(shapes)))}
    arrays = [with_layout(random_array(*s, seed=i), None) for i, s in enumerate(shapes)]
    ins, outs = [Spec(s) for s in shapes], [Spec(s, "bfloat16") for s in shapes]
    with use_device(device):
        runner = multi_tensor_cast.multi_tensor_cast(tuple(ins), tuple(outs), attrs)
    made = [guarded_output(o)[0] for o in outs]
    before = len(device.launched)
    runner(arrays, made)
    assert device.launched[before:] == ["multi_tensor_cast"]
    for a, b in zip(arrays, made, strict=True):
        np.testing.assert_array_equal(b, a.astype("bfloat16"))


def test_a_new_elementwise_op_has_a_kernel_and_is_fused_without_a_file_of_its_own(device):
    class ShiftedSquare(UnaryOp):
        """x * x + 0.5"""

        def reference(self, xp, x):
            return x * x + 0.5

    name = ShiftedSquare().name
    try:
        check_kernel(device, name, [random_array(3, 5)])
        program = (("add", (("in", 0), ("in", 1)), ()), (name, (("node", 0, 0),), ()))
        attrs = {"program": program, "outputs": (("node", 1, 0),)}
        check_kernel(device, "fused", [random_array(3, 5), random_array(3, 5, seed=1)], attrs)
        assert Backend("", np, ("cuda",)).fusion_role(name) == "elementwise"
    finally:
        del OPS[name]
