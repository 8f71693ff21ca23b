"""Functions of single numbers on native kernels: sines, powers and quotients, with all their limits."""

import inspect

import numpy as np
import pytest

from prototorch.engine.backends.cpu import cpu
from prototorch.errors import PrototorchError
from prototorch.ops.operators import OPS

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, -3e38,
         1e-30, 7.0, 1e10]  # fmt: skip


def spread(n, top, seed=0):
    """Numbers of both signs and of all sizes up to a largest."""
    rng = np.random.default_rng(seed)
    return (rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-30, np.log10(top), n)).astype("float32")


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves(bits, name):
    usual = np.random.default_rng(1).uniform(-30, 30, 4099).astype("float32")
    for x in (usual, spread(1000, 1e9), np.arange(-8, 9, dtype="float32") * np.float32(np.pi / 2)):
        # two units in the last place; beside a zero of the cosine 1e-7 of 1
        check(name, x, rtol=2.5e-7, atol=1e-7)
    beyond = np.array([*EDGES, 1e9, 2e9, -3e9, 1e20, 1e38] * 5, "float32")
    check(name, beyond, rtol=2.5e-7, atol=1e-7)


def test_powers(bits):
    a, b = (x.reshape(-1) for x in np.meshgrid(np.float32(EDGES), np.float32(EDGES)))
    check("power", a, b, rtol=2e-7)
    rng = np.random.default_rng(2)
    base = np.abs(spread(3001, 1e30))
    check("power", base, rng.uniform(-2, 2, 3001).astype("float32"), rtol=2e-7)
    for exponent in (-3.0, -0.75, -0.5, 0.5, 1.0, 2.0, 3.0, 2.5, 4.0):
        # whole exponents are products, rounded once more each
        check("power", spread(517, 1e8), np.float32(exponent).reshape(()), rtol=3e-7)


@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
def test_quotients_of_whole_numbers(bits, name):
    rng = np.random.default_rng(3)
    for dtype in ("int32", "int64"):
        a, b = rng.integers(-50, 50, (2, 333)).astype(dtype)
        a[:3], b[:3] = np.iinfo(dtype).min, [-1, 0, 2]
        with np.errstate(all="ignore"):
            check(name, a, b)
            check(name, a, np.array(7, dtype))


@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
def test_quotients(bits, name):
    a, b = (x.reshape(-1) for x in np.meshgrid(np.float32(EDGES[:15]), np.float32(EDGES[:15])))
    outs = native_check.outputs_of(name, native_check.specs_of([a, b], None), {}, None)
    (got,) = native_check.run_native(name, [a, b], native_check.specs_of([a, b], None), outs, {})
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, b)  # in float32: the float64 quotient may lie on the other side of a whole number
    np.testing.assert_array_equal(got, want)
    rng = np.random.default_rng(4)
    check(name, rng.integers(-99, 99, 301).astype("float32"), rng.integers(1, 9, 301).astype("float32"))


def on(level, name, arrays, **attrs):
    """What a level gives."""
    ins = native_check.specs_of(arrays, None)
    outs = native_check.outputs_of(name, ins, attrs, None)
    made = [np.empty(o.shape, o.dtype) for o in outs]
    with np.errstate(all="ignore"):
        cpu(level).prepare(OPS[name], ins, outs, attrs)(list(arrays), made)
    return made


def said_of(count):
    """The ops of single numbers that take ``count`` arrays."""
    for name, op in OPS.items():
        if getattr(op, "elementwise", False):
            given = [
                p.annotation
                for p in inspect.signature(op.infer_spec).parameters.values()
                if p.kind is not p.VAR_KEYWORD
            ]
            if given == ["Spec"] * count:
                yield name


@pytest.mark.parametrize("count", [1, 2])
def test_limits_are_those_of_the_plain_level(bits, count):
    """What is infinite, or no number, on one level is so on the other: nothing is an estimate that has no limits."""
    arrays, met = [a.reshape(-1) for a in np.meshgrid(*[np.float32(EDGES)] * count)], set()
    for name in said_of(count):
        try:
            pairs = zip(on("native", name, arrays), on("plain", name, arrays), strict=True)
        except (PrototorchError, TypeError):  # of truth values, of whole numbers, or with options that must be given
            continue
        for got, want in pairs:
            # GELU of -3 is what is left of 1
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7, err_msg=name)
        met.add(name)
    assert len(met) > 15
    assert met & {"rsqrt", "divide"}


@pytest.mark.parametrize("size", [4, 50])
def test_a_norm_of_numbers_whose_squares_are_infinite(bits, size):
    x = np.linspace(-9e19, 9e19, 2 * size, dtype="float32").reshape(2, size)
    x[1] = np.arange(size)
    arrays = [x, x[1], np.ones(size, "float32")]
    (got,), (want,) = (on(level, "layer_norm", arrays, axis=-1, eps=1e-3) for level in ("native", "plain"))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert (got[0] == 1).all()
