"""Native batch normalisation against the plain bodies in float64, with what is fused before and after it."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check
streams = pytest.importorskip("prototorch.engine.backends.cpu.native.nontemporal", exc_type=ImportError)

CHANNELS = [1, 3, 20, 33, 96]
LAYOUTS = [None, "channels_last"]
SHAPES = [(2, 3, 5), (1, 1, 1), (3, 40, 7), (70, 1, 4)]  # images, rows, columns
RANDOM = np.random.default_rng(0)


def arrays(channels, images, *size, mean=0.5):
    x = (RANDOM.normal(size=(images, channels, *size)) * 2 + mean).astype("float32")
    gamma, beta = (RANDOM.normal(size=channels).astype("float32") for _ in range(2))
    return x, gamma, beta


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels", CHANNELS)
def test_batch_norm(bits, layouts, channels, shape):
    x, gamma, beta = arrays(channels, *shape)
    g = RANDOM.normal(size=x.shape).astype("float32")
    # single units of float32 from sums in several steps; where one place is a channel's all, y is beta alone
    _, mean, variance = check("batch_norm", x, gamma, beta, layouts=layouts, rtol=1e-5, atol=2e-6, eps=1e-3)
    if shape == (1, 1, 1):
        return  # the gradient is zero: what is left are roundings
    mean, variance = mean.copy(), variance.copy()
    check("batch_norm_inference", x, gamma, beta, mean, variance, layouts=layouts, rtol=1e-5, atol=2e-6, eps=1e-3)
    check("batch_norm_grad", g, x, gamma, mean, variance, layouts=layouts, rtol=1e-4, atol=5e-6, eps=1e-3)


@pytest.mark.parametrize("layouts", LAYOUTS)
def test_large_means_do_no_harm(bits, layouts):
    x, gamma, beta = arrays(20, 8, 30, 9, mean=1e4)
    # the mean is rounded to 1e4 * 6e-8 = 6e-4 as an output alone
    _, _, variance = check("batch_norm", x, gamma, beta, layouts=layouts, rtol=1e-5, atol=1e-5, eps=1e-5)
    np.testing.assert_allclose(variance, np.var(x, axis=(0, 2, 3), dtype="float64"), rtol=1e-5)


@pytest.mark.parametrize("odd", [0, 8])
@pytest.mark.parametrize("channels", [32, 33])
def test_results_past_the_caches(bits, monkeypatch, channels, odd):
    monkeypatch.setattr(streams, "MIN_BYTES", 0)
    monkeypatch.setattr(native_check, "ODD", odd)  # arrays that begin at cache lines, and others
    x, gamma, beta = arrays(channels, 2, 13, 30)
    other = {"layouts": "channels_last", "rtol": 1e-4, "atol": 5e-6, "eps": 1e-3}
    _, mean, variance = check("batch_norm", x, gamma, beta, **other)
    mean, variance = mean.copy(), variance.copy()
    check("batch_norm_inference", x, gamma, beta, mean, variance, **other)
    g = RANDOM.normal(size=x.shape).astype("float32")
    check("batch_norm_grad", g, x, gamma, mean, variance, **other)


@pytest.mark.parametrize("shape", [(64, 33), (700, 96), (3, 5, 20)])
def test_the_last_axis(bits, shape):
    x, gamma, beta = arrays(shape[-1], 1)
    x = RANDOM.normal(size=shape).astype("float32")
    _, mean, variance = check("batch_norm", x, gamma, beta, rtol=1e-5, atol=2e-6, eps=1e-3, axis=len(shape) - 1)
    g = RANDOM.normal(size=shape).astype("float32")
    attrs = {"eps": 1e-3, "axis": len(shape) - 1}
    check("batch_norm_grad", g, x, gamma, mean.copy(), variance.copy(), rtol=1e-4, atol=5e-6, **attrs)


def norm_line(name, inputs):
    return (name, tuple(("in", i) for i in inputs), (("eps", 1e-3),))


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("channels", [20, 96])
def test_fused_after(bits, layouts, channels):
    x, gamma, beta = arrays(channels, 2, 13, 30)
    other = RANDOM.normal(size=x.shape).astype("float32")
    program = (norm_line("batch_norm", range(3)), ("add", (("node", 0, 0), ("in", 3)), ()),
               ("relu", (("node", 1, 0),), ()))  # fmt: skip
    outputs = (("node", 2, 0), ("node", 0, 1), ("node", 0, 2))
    check("fused", x, gamma, beta, other, layouts=layouts, rtol=1e-5, atol=2e-6, program=program, outputs=outputs)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    program = (norm_line("batch_norm_inference", range(5)), ("relu", (("node", 0, 0),), ()))
    check(
        "fused",
        x,
        gamma,
        beta,
        mean,
        variance,
        layouts=layouts,
        rtol=1e-5,
        atol=2e-6,
        program=program,
        outputs=(("node", 1, 0),),
    )


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("channels", [20, 96])
def test_fused_before(bits, layouts, channels):
    x, gamma, _ = arrays(channels, 2, 13, 30)
    g, y = (RANDOM.normal(size=x.shape).astype("float32") for _ in range(2))
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    own = (("node", 0, 0), ("in", 2), ("in", 3), ("in", 4), ("in", 5))
    program = (("relu_grad", (("in", 0), ("in", 1)), ()), ("batch_norm_grad", own, (("eps", 1e-3),)))
    for kept in ((), (("node", 0, 0),)):  # the gradient is also that of what was added
        outputs = (*kept, *(("node", 1, i) for i in range(3)))
        n = len(kept)
        check("fused", g, y, x, gamma, mean, variance, layouts=layouts, rtol=1e-4, atol=5e-6, program=program,
              outputs=outputs, inplace=((0, 0), (n, 1), (n + 1, 4), (n + 2, 5)))  # fmt: skip
