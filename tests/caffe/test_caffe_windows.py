"""Layers over windows with random settings, against loops written from Caffe's definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from prototorch.errors import ModelWarning, TextError
from tests.caffe import oracles_windows as oracles
from tests.caffe.layer_runner import inputs_text, run_layer, translate

SEEDS = range(6)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def listed(name, values):
    return " ".join(f"{name}: {v}" for v in values)


def random_windows(rng, rank):
    """A kernel, stride, pad and dilation, and a size that the kernel fits into."""
    kernel, stride, dilation = (tuple(int(n) for n in rng.integers(1, 4, rank)) for _ in range(3))
    pad = tuple(int(n) for n in rng.integers(0, 3, rank))
    size = tuple(
        int(rng.integers(max((k - 1) * d + 1 - 2 * p, 1), 9)) for k, d, p in zip(kernel, dilation, pad, strict=True)
    )
    return size, kernel, stride, pad, dilation


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_convolution(kind, rank, seed):
    rng = np.random.default_rng([seed, rank])
    size, kernel, stride, pad, dilation = random_windows(rng, rank)
    size = tuple(min(n, 5) if rank == 3 and k <= 2 else n for n, k in zip(size, kernel, strict=True))
    if kind == "Deconvolution":
        pad = tuple(min(p, (k - 1) * d // 2) for p, k, d in zip(pad, kernel, dilation, strict=True))
    groups = int(rng.integers(1, 3))
    channels, filters = groups * 2, groups * int(rng.integers(1, 3))
    oracle = oracles.convolution if kind == "Convolution" else oracles.deconvolution
    outer, inner = (filters, channels) if kind == "Convolution" else (channels, filters)
    x = rng.normal(size=(2, channels, *size))
    w, bias = rng.normal(size=(outer, inner // groups, *kernel)), rng.normal(size=filters)
    shape = oracle(x, w, bias, None, groups, stride, pad, dilation)[0].shape
    assert min(shape) >= 1, "a random case without an output tests nothing"
    g = rng.normal(size=shape)
    expected = oracle(x, w, bias, g, groups, stride, pad, dilation)
    windows = " ".join(map(listed, ("kernel_size", "stride", "pad", "dilation"), (kernel, stride, pad, dilation)))
    text = (
        f'layer {{ name: "c" type: "{kind}" bottom: "x" top: "y" convolution_param {{ num_output: {filters} '
        f"group: {groups} {windows} }} }}"
    )
    run = run_layer(text, {"x": x}, {("c", 0): w, ("c", 1): bias}, {"y": g})
    for actual, wanted in zip(
        (run.blobs["y"], run.input_gradients["x"], run.param_gradients["c", 0], run.param_gradients["c", 1]),
        expected,
        strict=True,
    ):
        close(actual, wanted)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -3])
@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
def test_axes_before_the_channels_count_as_the_batch(kind, axis):
    rng = np.random.default_rng(axis % 5)
    shape = {0: (2, 5, 4), 1: (3, 2, 5, 4), 2: (2, 3, 2, 5, 4), 3: (2, 1, 3, 2, 5, 4), -3: (2, 3, 2, 5, 4)}[axis]
    x, w, bias = rng.normal(size=shape), rng.normal(size=(2, 2, 2, 2)), rng.normal(size=2)
    oracle = oracles.convolution if kind == "Convolution" else oracles.deconvolution
    merged = x.reshape(-1, *shape[-3:])
    expected = oracle(merged, w, bias, None, 1, (1, 1), (0, 0), (1, 1))[0]
    text = (
        f'layer {{ name: "c" type: "{kind}" bottom: "x" top: "y" convolution_param {{ num_output: 2 kernel_h: 2 '
        f"kernel_w: 2 axis: {axis} }} }}"
    )
    run = run_layer(text, {"x": x}, {("c", 0): w, ("c", 1): bias}, {})
    close(run.blobs["y"], expected.reshape(*shape[:-3], *expected.shape[1:]))


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize(("groups", "shape", "axis"), [
    (1, (3, 4), 1), (2, (3, 4), 1), (1, (4,), 0), (2, (4,), 0), (1, (2, 3, 4), 2), (2, (2, 3, 4), -1)])  # fmt: skip
def test_convolution_without_spatial_axes(kind, groups, shape, axis):
    rng = np.random.default_rng(groups)
    x, bias = rng.normal(size=shape), rng.normal(size=6)
    outer, inner = (6, 4) if kind == "Convolution" else (4, 6)
    w = rng.normal(size=(outer, inner // groups))
    g = rng.normal(size=(*shape[:-1], 6))
    oracle = oracles.convolution if kind == "Convolution" else oracles.deconvolution
    expected = oracle(x.reshape(-1, 4), w, bias, g.reshape(-1, 6), groups, (), (), ())
    text = (
        f'layer {{ name: "c" type: "{kind}" bottom: "x" top: "y" convolution_param {{ num_output: 6 '
        f"kernel_size: 1 group: {groups} axis: {axis} }} }}"
    )
    run = run_layer(text, {"x": x}, {("c", 0): w, ("c", 1): bias}, {"y": g})
    close(run.blobs["y"], expected[0].reshape(g.shape))
    close(run.input_gradients["x"], expected[1].reshape(shape))
    close(run.param_gradients["c", 0], expected[2])


def test_a_kernel_that_reaches_over_the_end_by_less_than_a_stride_reads_zeros():
    rng = np.random.default_rng(0)
    x, w, bias = rng.normal(size=(1, 1, 3, 4)), rng.normal(size=(1, 1, 4, 2)), np.zeros(1)
    expected = oracles.convolution(x, w, bias, None, 1, (2, 2), (0, 0), (1, 1))[0]
    text = (
        'layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 1 kernel_h: 4 '
        "kernel_w: 2 stride: 2 } }"
    )
    assert expected.shape == (1, 1, 1, 2)
    close(run_layer(text, {"x": x}, {("c", 0): w, ("c", 1): bias}, {}).blobs["y"], expected)


POOLS = list(product(["MAX", "AVE"], ["CEIL", "FLOOR"], SEEDS))


@pytest.mark.parametrize(("kind", "mode", "seed"), POOLS)
def test_pooling(kind, mode, seed):
    rng = np.random.default_rng(seed)
    kernel = tuple(int(n) for n in rng.integers(1, 5, 2))
    stride = tuple(int(rng.integers(1, k + 1)) for k in kernel)
    pad = tuple(int(rng.integers(0, k)) for k in kernel)
    size = tuple(int(rng.integers(max(k - 2 * p, 1), 8)) for k, p in zip(kernel, pad, strict=True))
    x = rng.integers(-3, 3, size=(2, 2, *size)).astype(float)  # equal elements: the first counts
    g = rng.normal(size=oracles.pooling(x, None, kind, kernel, stride, pad, mode)[0].shape)
    y, mask, dx = oracles.pooling(x, g, kind, kernel, stride, pad, mode)
    windows = " ".join(f"{n}_h: {a} {n}_w: {b}" for n, (a, b) in (("kernel", kernel), ("stride", stride), ("pad", pad)))
    second = 'top: "mask"' if kind == "MAX" else ""
    text = (
        f'layer {{ name: "p" type: "Pooling" bottom: "x" top: "y" {second} pooling_param {{ pool: {kind} {windows} '
        f"round_mode: {mode} }} }}"
    )
    run = run_layer(text, {"x": x}, seeds={"y": g})
    close(run.blobs["y"], y)
    close(run.input_gradients["x"], dx)
    if kind == "MAX":
        np.testing.assert_array_equal(run.blobs["mask"], mask)
        assert run.blobs["mask"].dtype == np.float64


@pytest.mark.parametrize("kind", ["MAX", "AVE", "STOCHASTIC"])
@pytest.mark.parametrize("size", [(4, 6), (1, 3)])
def test_global_pooling(kind, size):
    x = np.abs(np.random.default_rng(1).normal(size=(2, 3, *size)))
    expected = oracles.pooling(x, None, kind, size, (1, 1), (0, 0), "CEIL")[0]
    text = (
        'layer { name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { global_pooling: true '
        f"pool: {kind} }} }}"
    )
    close(run_layer(text, {"x": x}, seeds={}, phase="TEST").blobs["y"], expected)


@pytest.mark.parametrize("mode", ["CEIL", "FLOOR"])
def test_stochastic_pooling_outside_training_weighs_by_the_elements(mode):
    x = np.maximum(np.random.default_rng(2).normal(size=(2, 3, 6, 5)), 0)
    x[0, 0, :3, :3] = 0
    expected = oracles.pooling(x, None, "STOCHASTIC", (3, 2), (2, 2), (0, 0), mode)[0]
    text = (
        'layer { name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { pool: STOCHASTIC kernel_h: 3 '
        f"kernel_w: 2 stride: 2 round_mode: {mode} }} }}"
    )
    run = run_layer(text, {"x": x}, seeds={}, phase="TEST")
    close(run.blobs["y"], expected)
    assert run.blobs["y"][0, 0, 0, 0] == 0


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize(("size", "levels"), [((5, 6), 1), ((5, 6), 2), ((8, 7), 3)])
def test_spatial_pyramid(kind, size, levels):
    rng = np.random.default_rng(levels)
    x = rng.normal(size=(2, 2, *size))
    flat = oracles.pyramid(x, None, levels, kind)[0]
    shape = (2, 2, 1, 1) if levels == 1 else flat.shape
    g = rng.normal(size=shape)
    text = (
        f'layer {{ name: "s" type: "SPP" bottom: "x" top: "y" spp_param {{ pyramid_height: {levels} pool: {kind} }} }}'
    )
    run = run_layer(text, {"x": x}, seeds={"y": g})
    close(run.blobs["y"], flat.reshape(shape))
    close(run.input_gradients["x"], oracles.pyramid(x, g.reshape(2, -1), levels, kind)[1])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_im2col(rank, seed):
    rng = np.random.default_rng([seed, rank])
    size, kernel, stride, pad, dilation = random_windows(rng, rank)
    x = rng.normal(size=(2, 2, *size))
    g = rng.normal(size=oracles.im2col(x, None, kernel, stride, pad, dilation)[0].shape)
    windows = " ".join(map(listed, ("kernel_size", "stride", "pad", "dilation"), (kernel, stride, pad, dilation)))
    text = f'layer {{ name: "i" type: "Im2col" bottom: "x" top: "y" convolution_param {{ {windows} }} }}'
    run = run_layer(text, {"x": x}, seeds={"y": g})
    y, dx = oracles.im2col(x, g, kernel, stride, pad, dilation)
    close(run.blobs["y"], y)
    close(run.input_gradients["x"], dx)


@pytest.mark.parametrize(("size", "alpha", "beta", "k", "within"), [
    (3, 0.5, 0.75, 2.0, False), (7, 0.1, 0.6, 0.5, False), (3, 0.5, 0.75, 7.0, True), (5, 2.0, 0.4, 1.0, True),
    (21, 0.5, 0.75, 1.0, False), (13, 0.5, 0.75, 1.0, True), (2000000001, 0.5, 0.75, 1.0, False),
])  # fmt: skip
def test_lrn(size, alpha, beta, k, within):
    x = np.random.default_rng(size).normal(size=(2, 4, 5, 3))
    alpha, beta, k = (float(np.float32(v)) for v in (alpha, beta, k))
    region = "WITHIN_CHANNEL" if within else "ACROSS_CHANNELS"
    text = (
        f'layer {{ name: "n" type: "LRN" bottom: "x" top: "y" lrn_param {{ local_size: {size} alpha: {alpha} '
        f"beta: {beta} k: {k} norm_region: {region} }} }}"
    )
    close(run_layer(text, {"x": x}, seeds={}).blobs["y"], oracles.lrn(x, size, alpha, beta, k, within))


@pytest.mark.parametrize(("axis", "offsets"), [(2, []), (1, [1]), (-1, [2]), (0, [1, 0, 2, 1]), (2, [0, 1])])
def test_crop(axis, offsets):
    rng = np.random.default_rng(0)
    x, like, first = rng.normal(size=(3, 4, 5, 6)), np.zeros((2, 2, 3, 4)), axis % 4
    each = offsets * (4 - first) if len(offsets) == 1 else offsets or [0] * (4 - first)
    key = (slice(None),) * first + tuple(slice(o, o + like.shape[i]) for i, o in enumerate(each, first))
    text = (
        f'layer {{ name: "c" type: "Crop" bottom: "x" bottom: "like" top: "y" crop_param {{ axis: {axis} '
        f"{listed('offset', offsets)} }} }}"
    )
    g = rng.normal(size=x[key].shape)
    run = run_layer(text, {"x": x, "like": like}, seeds={"y": g})
    dx = np.zeros_like(x)
    dx[key] = g
    close(run.blobs["y"], x[key])
    close(run.input_gradients["x"], dx)


REFUSED = [
    ("Convolution", "convolution_param { num_output: 2 kernel_size: 3 kernel_h: 3 }", "both kernel_size and kernel_h"),
    ("Convolution", "convolution_param { num_output: 2 kernel_h: 3 }", "kernel_w must be at least 1"),
    ("Convolution", "convolution_param { num_output: 2 }", "kernel_size is missing"),
    ("Convolution", "convolution_param { num_output: 2 kernel_size: 3 pad: [1, 1, 1] }", "3 values of pad"),
    ("Convolution", "convolution_param { num_output: 2 kernel_size: 3 stride: 0 }", "stride must be at least 1"),
    ("Convolution", "convolution_param { num_output: 2 kernel_size: 3 dilation: 0 }", "dilation must be at least 1"),
    ("Convolution", "convolution_param { num_output: 2 kernel_size: 3 group: 0 }", "group must be at least 1"),
    ("Convolution", "convolution_param { kernel_size: 3 }", "num_output must be at least 1; it is missing"),
    ("Convolution", "convolution_param { num_output: 2 kernel_size: 3 axis: 4 }", "axis 4"),
    ("Convolution", "convolution_param { num_output: 2 kernel_h: 3 kernel_w: 3 axis: 2 }", "for 2 spatial axes"),
    ("Deconvolution", "convolution_param { num_output: 2 kernel_size: 1 pad: 3 }", "would have the size"),
    ("Im2col", "convolution_param { kernel_size: 9 }", "exceeds the padded input"),
    ("Pooling", "pooling_param { kernel_size: 2 pad: 1 pool: STOCHASTIC }", "no padding"),
    ("Pooling", "pooling_param { kernel_size: 2 stride_h: 2 }", "but not stride_w"),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 2 stride_h: 2 stride_w: 2 }", "both stride and stride_h"),
    ("Pooling", "pooling_param { kernel_h: 2 }", "but not kernel_w"),
    ("Pooling", "pooling_param { kernel_size: 0 }", "kernel_size must be at least 1"),
    ("Pooling", "pooling_param { kernel_size: 9 stride: 9 round_mode: FLOOR }", "exceeds the padded input"),
    ("Pooling", "pooling_param { global_pooling: true pad_h: 1 pad_w: 0 }", "pad_h must be 0"),
    ("SPP", "spp_param { }", "pyramid_height must be at least 1; it is missing"),
    ("SPP", "spp_param { pyramid_height: 4 }", "cannot be divided into 4 x 4 windows"),
    ("SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }", "stochastic pooling has no padding"),
    ("LRN", "lrn_param { local_size: 4 }", "local_size must be odd"),
    ("LRN", "lrn_param { k: -1 }", "k must be a number of at least 0"),
    ("SPP", "spp_param { pyramid_height: 40 }", "at most 16, not 40"),
    ("Im2col", "convolution_param { kernel_size: 70 pad: 70 }", "at most 4096 elements, not 4900"),
    ("InnerProduct", "inner_product_param { axis: 7 num_output: 1 }", "axis 7"),
    ("InnerProduct", "inner_product_param { num_output: 0 }", "num_output must be at least 1, not 0"),
    ("Embed", "embed_param { num_output: 2 }", "input_dim must be at least 1; it is missing"),
]


@pytest.mark.parametrize(("kind", "param", "reason"), REFUSED, ids=[f"{k}-{r}" for k, _, r in REFUSED])
def test_mistakes_are_refused_with_their_place(kind, param, reason):
    text = inputs_text({"x": np.zeros((2, 4, 7, 5))})
    text += f'layer {{ name: "l" type: "{kind}" bottom: "x" top: "y"\n  {param} }}'
    with pytest.raises(TextError, match=reason) as error:
        translate(text)
    assert f"layer 'l' ({kind})" in str(error.value)
    assert str(error.value).startswith(("<text>:2:", "<text>:3:"))


def test_a_lone_kernel_h_beside_kernel_size_has_no_effect():
    text = inputs_text({"x": np.zeros((2, 4, 7, 5))})
    text += 'layer { name: "l" type: "Pooling" bottom: "x" top: "y" pooling_param { kernel_size: 2 kernel_h: 3 } }'
    with pytest.warns(ModelWarning, match="Caffe ignores kernel_h beside kernel_size 2"):
        assert translate(text).shapes["l"] == (2, 4, 6, 4)


@pytest.mark.parametrize("size", [(20, 18), (4, 5)])
def test_positions_in_large_and_small_windows(size):
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, *size)).astype(float)
    text = 'layer { name: "p" type: "Pooling" bottom: "x" top: "y" top: "mask" pooling_param { global_pooling: true } }'
    run = run_layer(text, {"x": x}, seeds={})
    np.testing.assert_array_equal(run.blobs["mask"].reshape(2, 3), x.reshape(2, 3, -1).argmax(axis=2))
