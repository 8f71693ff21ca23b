"""Padding, shuffles, windows as columns and other sizes against PyTorch's."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn
from prototorch.errors import RangeError, ShapeError, UsageError
from tests.nn.peers import compare, compare_functions


def x(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


MODULES = [
    ("ConstantPad1d", (2, 1.5), {}, (2, 3, 4)), ("ConstantPad2d", ((1, 0, 2, -1), 3.0), {}, (2, 3, 4, 5)),
    ("ConstantPad3d", (1, 0.5), {}, (2, 3, 4, 2, 2)), ("ZeroPad1d", (1,), {}, (3, 4)),
    ("ZeroPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 5)), ("ZeroPad3d", (1,), {}, (2, 3, 4, 2, 2)),
    ("ReflectionPad1d", ((1, 3),), {}, (2, 3, 4)), ("ReflectionPad2d", (2,), {}, (2, 3, 4, 5)),
    ("ReflectionPad3d", (1,), {}, (2, 3, 4, 2, 3)), ("ReplicationPad1d", (3,), {}, (3, 4)),
    ("ReplicationPad2d", ((1, 2, 0, 3),), {}, (3, 4, 5)), ("ReplicationPad3d", (1,), {}, (2, 3, 4, 2, 2)),
    ("CircularPad1d", (2,), {}, (2, 3, 4)), ("CircularPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 5)),
    ("CircularPad3d", (1,), {}, (2, 3, 4, 2, 2)), ("PixelShuffle", (2,), {}, (2, 8, 3, 4)),
    ("PixelShuffle", (3,), {}, (9, 2, 2)), ("PixelUnshuffle", (2,), {}, (2, 3, 4, 6)),
    ("ChannelShuffle", (3,), {}, (2, 6, 4, 5)), ("Flatten", (), {}, (2, 3, 4)), ("Flatten", (0, 1), {}, (2, 3, 4)),
    ("Unflatten", (1, (2, 3)), {}, (4, 6, 2)), ("Unflatten", (-1, (2, -1)), {}, (4, 6)),
    ("Unfold", (2,), {}, (2, 3, 5, 6)), ("Unfold", ((2, 3),), {"dilation": 2, "padding": (1, 2), "stride": (2, 1)},
                                         (3, 6, 7)),
    ("Fold", ((5, 6), 2), {}, (2, 12, 20)), ("Fold", ((4, 5), (2, 3)), {"dilation": 1, "padding": 1, "stride": 2},
                                             (6, 9)),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, (1, 2, 3, 4)), ("UpsamplingBilinear2d", ((5, 7),), {},
                                                                     (1, 2, 3, 4)),
    ("Upsample", (), {"scale_factor": (2, 1.5), "mode": "bilinear"}, (1, 2, 3, 4)),
    ("Upsample", (7,), {"mode": "linear", "align_corners": True}, (1, 2, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options", "shape"), MODULES)
def test_modules(name, args, options, shape):
    compare(name, args, options, [x(*shape)])


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("options", [
    {"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": 0.6}, {"size": 7}, {"size": 2},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
], ids=str)  # fmt: skip
def test_interpolation(shape, options):
    linear = {3: "linear", 4: "bilinear", 5: "trilinear"}[len(shape)]
    modes = ["nearest", "nearest-exact", "area", linear, *(["bicubic"] if len(shape) == 4 else [])]
    for mode in modes:
        compare_functions("interpolate", (x(*shape),), {**options, "mode": mode}, tolerance=1e-6)
        if mode in (linear, "bicubic"):
            compare_functions("interpolate", (x(*shape),), {**options, "mode": mode, "align_corners": True}, 1e-6)
        if mode in ("bilinear", "bicubic"):
            compare_functions("interpolate", (x(*shape),), {**options, "mode": mode, "antialias": True}, 1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_samples_at_a_grid(mode, padding_mode, align_corners):
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    grid = np.random.default_rng(1).uniform(-1.6, 1.6, (2, 3, 4, 2))
    compare_functions("grid_sample", (x(2, 3, 5, 6), grid), options, tolerance=1e-8)
    if mode != "bicubic":
        grid = np.random.default_rng(1).uniform(-1.6, 1.6, (2, 2, 3, 4, 3))
        compare_functions("grid_sample", (x(2, 3, 5, 6, 4), grid), options, tolerance=1e-8)


@pytest.mark.parametrize("align_corners", [True, False])
def test_affine_grids(align_corners):
    options = {"align_corners": align_corners}
    compare_functions("affine_grid", (x(2, 2, 3), (2, 3, 4, 5)), options)
    compare_functions("affine_grid", (x(2, 3, 4), (2, 3, 2, 4, 5)), options)


@pytest.mark.parametrize(("args", "options"), [
    ((x(2, 3), (1, 2)), {}), ((x(2, 3), (1, 2, -1, 3)), {"value": 2.5}), ((np.arange(6).reshape(2, 3), (1, 1)), {}),
    ((x(2, 3, 4), (-1, 2)), {"mode": "reflect"}), ((x(2, 3), (0, 0)), {}),
])  # fmt: skip
def test_padding(args, options):
    compare_functions("pad", args, options)


def test_one_hot_rows():
    for args in ((np.array([0, 2, 1]),), (np.array([[0], [3]]), 5)):
        compare_functions("one_hot", args)


@pytest.mark.parametrize(("error", "call", "message"), [
    (UsageError, lambda F: F.pad(pt.zeros(2, 3), (1,)), "expected pairs for at most 2 dimensions"),
    (UsageError, lambda F: F.pad(pt.zeros(2, 3), (1, 1), mode="mirror"), "mode must be one of 'constant'"),
    (ShapeError, lambda F: F.pad(pt.zeros(2, 3), (-2, -2)), "removes more elements"),
    (ShapeError, lambda F: F.pad(pt.zeros(1, 2, 3), (3, 0), mode="reflect"), "smaller than the shape"),
    (RangeError, lambda F: F.one_hot(pt.tensor([0, 3]), 2), r"must lie in 0 .. 1, got 3"),
    (UsageError, lambda F: F.one_hot(pt.tensor([0.0])), "expected int64 indices, got float32"),
    (ShapeError, lambda F: F.pixel_shuffle(pt.zeros(3, 2, 2), 2), "must be a multiple of 2"),
    (UsageError, lambda F: F.interpolate(pt.zeros(1, 1, 4)), "give one of size and scale_factor"),
    (ShapeError, lambda F: F.interpolate(pt.zeros(1, 1, 4), 2, mode="bilinear"), "needs an input of 4 dimensions"),
    (UsageError, lambda F: F.interpolate(pt.zeros(1, 1, 4), 2, mode="cubic"), "mode must be one of 'nearest'"),
    (UsageError, lambda F: F.interpolate(pt.zeros(1, 1, 4), 2, align_corners=True), "does not go with mode"),
    (ShapeError, lambda F: F.fold(pt.zeros(1, 4, 5), (4, 4), 2), r"expected 9 windows \(3 x 3\), got 5"),
    (UsageError, lambda F: F.grid_sample(pt.zeros(1, 1, 4, 4), pt.zeros(1, 2, 2, 2), mode="cubic"), "mode must be"),
    (ShapeError, lambda F: F.grid_sample(pt.zeros(1, 1, 4, 4), pt.zeros(1, 2, 2, 3)), "the grid"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call(nn.functional)
