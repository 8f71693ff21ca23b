"""The logic of the GPU kernels, run on the CPU from the same text: LRN, random numbers, moves, look-ups."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.offline.kernel_logic import LAST, check_kernel, random_array, run_kernel
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)


@pytest.mark.parametrize("beta", [0.75, 0.5, 0.6])
@pytest.mark.parametrize("layout", [None, LAST])
def test_lrn(device, beta, layout):
    x, attrs = random_array(2, 7, 3, 2), {"size": 5, "alpha": 0.3, "beta": beta, "k": 2.0}
    _, base = check_kernel(device, "lrn", [x], attrs, [layout], [layout, layout], rtol=1e-5)
    check_kernel(
        device, "lrn_grad", [random_array(2, 7, 3, 2, seed=1), x, base], attrs, [layout] * 3, [layout], rtol=1e-5
    )


@pytest.mark.parametrize("layout", [None, LAST])
@pytest.mark.parametrize(
    ("channels", "size", "beta"), [(7, 5, 0.75), (8, 5, 0.75), (16, 3, 0.5), (12, 11, 0.6), (8, 1, 1.0)]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lrn_without_its_base(device, channels, size, beta, layout, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    attrs = {"size": size, "alpha": 1e-1, "beta": beta, "k": 2.0}
    x, g = (random_array(2, channels, 3, 2, seed=k).astype(dtype) for k in range(2))
    check_kernel(device, "lrn_recompute", [x], attrs, [layout], [layout], rtol=1e-5)
    for slope in (False, True):
        check_kernel(
            device,
            "lrn_recompute_grad",
            [g, x],
            {**attrs, "through_relu": slope},
            [layout] * 2,
            [layout],
            rtol=2e-5,
            atol=1e-5,
        )


KEY = np.array([(1 << 63) + 12345, 77], np.uint64)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.99999])
@pytest.mark.parametrize("shape", [(5, 16), (7, 3), (1,), (40,)])
def test_dropout_draws_the_bits_of_the_cpu(device, rate, shape):
    check_kernel(device, "dropout", [random_array(*shape), KEY], {"rate": rate, "site": 3})


def test_dropout_of_shared_draws_and_of_channels_last(device):
    x, attrs = random_array(3, 4, 2, 5), {"rate": 0.5, "site": 2**40 + 1}
    check_kernel(device, "dropout", [x, KEY], {**attrs, "noise_shape": (3, 4, 1, 1)})
    check_kernel(device, "dropout", [x, KEY], attrs, [LAST, None], [LAST])
    check_kernel(device, "dropout", [x, KEY], {**attrs, "noise_shape": (3, 1, 2, 1)}, [LAST, None], [LAST])


def test_random_numbers_are_those_of_the_cpu(device):
    for shape in ((3,), (5, 7), (64,)):
        check_kernel(device, "random_bits", [KEY], {"site": 9, "shape": shape})
        check_kernel(device, "random_uniform", [KEY], {"site": 9, "shape": shape})
        check_kernel(device, "random_uniform", [KEY], {"site": 9, "shape": shape, "low": -2.0, "high": 3.0})


def test_reordering(device):
    x = random_array(2, 5, 3, 4)
    check_kernel(device, "reorder", [x], {"layout": LAST}, [None], [LAST])
    check_kernel(device, "reorder", [x], {"layout": None}, [LAST], [None])
    x = random_array(2, 40, 33)
    check_kernel(device, "reorder", [x], {"layout": LAST}, [None], [LAST])


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2), (2, 3, 0, 1), (0, 2, 3, 1)])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 33, 1, 40), (2, 2, 1, 8)])
def test_transposing(device, order, shape):
    check_kernel(device, "transpose", [random_array(*shape)], {"order": order})


@pytest.mark.parametrize("layout", [None, LAST])
def test_parts_and_joins(device, layout):
    x = random_array(3, 8, 5, 4)
    part = {"start": (1, 2, 0, 1), "stop": (3, 7, 5, 4), "step": (1, 2, 3, 1)}
    check_kernel(device, "slice", [x], part, [layout], [layout])
    whole = {"start": (1, 0, 0, 0), "stop": (3, 4, 5, 4), "step": (1, 1, 1, 1)}
    (y,) = check_kernel(device, "slice", [x], whole, [layout], [layout])
    check_kernel(device, "slice_grad", [y], {"shape": x.shape, **whole}, [layout], [layout])
    check_kernel(device, "flip", [x], {"axis": (1, 3)}, [layout], [layout])
    check_kernel(device, "concat", [x, x[:, :3], x[:, :4]], {"axis": 1}, [layout] * 3, [layout])
    check_kernel(device, "concat", [x, x[:1]], {"axis": 0}, [layout] * 2, [layout])
    pads = ((0, 0), (1, 2), (0, 3), (2, 0))
    check_kernel(device, "pad", [x], {"pads": pads, "value": -1.5}, [layout], [layout])


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_with_its_own(device, mode):
    check_kernel(device, "pad", [random_array(2, 5, 3)], {"pads": ((0, 0), (2, 3), (0, 0)), "mode": mode})


def test_bytes_move_too(device):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    check_kernel(device, "transpose", [x], {"order": (2, 1, 0)})
    check_kernel(device, "concat", [x > 3, x > 9], {"axis": 2})


@pytest.mark.parametrize("layout", [None, LAST])
@pytest.mark.parametrize("fill_mode", ["constant", "nearest", "reflect", "wrap"])
@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
def test_affine_maps(device, fill_mode, interpolation, layout):
    x = random_array(3, 2, 5, 4)
    turned = [[[0.8, -0.6, 1.2], [0.6, 0.8, -1.0]], [[1, 0, 0.5], [0, 1, -9]], [[-30, 0, 2.5], [0, 1e9, np.inf]]]
    if fill_mode == "wrap" or fill_mode == "reflect":
        turned[2][1][2] = 7.0  # the remainder of what is not finite is no place
    attrs = {"fill_mode": fill_mode, "fill_value": 0.25, "interpolation": interpolation}
    for dtype in ("float64", "float32"):
        check_kernel(
            device, "affine_sample", [x, np.array(turned, dtype)], attrs, [layout, None], [layout], rtol=1e-5, atol=1e-5
        )
        # a sum of many shares, in another order
        check_kernel(
            device,
            "affine_sample_grad",
            [x, np.array(turned, dtype)],
            attrs,
            [layout, None],
            [layout],
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("layout", [None, LAST])
def test_the_adjoint_of_an_affine_map_gives_the_same_bits_and_sums_in_float32(device, layout):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    maps = np.array([[[0.0, 0.01, 2.0], [0.02, 0.0, 1.0]], [[0.7, 0.3, 0.1], [-0.3, 0.7, 2.0]]], np.float32)
    for dtype in ("float32", "bfloat16", "float16"):
        g = random_array(2, 3, 9, 7).astype(dtype)  # all of the first picture falls on few pixels
        arrays, layouts = [g, maps], ([layout, None], [layout])
        check_kernel(device, "affine_sample_grad", arrays, {}, *layouts, rtol=1e-5, atol=1e-5)
        one, two = (run_kernel(device, "affine_sample_grad", arrays, {}, *layouts)[0] for _ in range(2))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_looking_up(device, dtype):
    table, indices = random_array(5, 3, 2), np.array([[0, 4, 2], [2, 2, -1], [5, 0, 0]], dtype)
    check_kernel(device, "take", [table, indices])
    check_kernel(device, "embedding_grad", [random_array(3, 3, 3, 2), indices], {"rows": 5})
    along = np.array([[0, 3], [2, 2], [1, 0]], dtype)
    check_kernel(device, "take_along_axis", [random_array(3, 4), along])
    check_kernel(device, "scatter_add_along_axis", [random_array(3, 2), along], {"size": 4})
    check_kernel(device, "one_hot", [indices], {"classes": 5})
    check_kernel(device, "iota", [], {"size": 7})


def test_many_rows_are_added_at_few_places(device):
    indices = np.random.default_rng(0).integers(-1, 7, 600).astype(np.int32)
    indices[::2] = 3  # one that comes again and again, as padding does
    check_kernel(device, "embedding_grad", [random_array(600, 3), indices], {"rows": 6}, rtol=1e-4, atol=1e-4)
    (one,) = run_kernel(device, "embedding_grad", [random_array(600, 3), indices], {"rows": 6})
    (two,) = run_kernel(device, "embedding_grad", [random_array(600, 3), indices], {"rows": 6})
    np.testing.assert_array_equal(one, two)


def test_fixed_places(device):
    attrs = {"indices": (2, 0, 0, 3), "axis": 1}
    check_kernel(device, "static_gather", [random_array(2, 4, 3)], attrs)
    check_kernel(device, "static_scatter_add", [random_array(2, 4, 3)], {**attrs, "size": 5})
    for reverse in (False, True):
        check_kernel(device, "cumsum", [random_array(2, 5, 3)], {"axis": 1, "reverse": reverse})


@pytest.mark.parametrize(("height", "width"), [(3, 8), (5, 7), (2, 11), (1, 6)])
def test_parts_of_pictures_at_places_of_their_own(device, height, width):
    places = [np.array(p, np.int32).reshape(3, 1, 1, 1) for p in ((0, 2, 9), (3, -1, 1))]
    attrs = {"height": height, "width": width}
    check_kernel(device, "crop", [random_array(3, 2, 5, 11), *places], attrs)
    check_kernel(
        device, "crop", [np.random.default_rng(0).integers(0, 256, (3, 2, 5, 11)).astype(np.uint8), *places], attrs
    )
