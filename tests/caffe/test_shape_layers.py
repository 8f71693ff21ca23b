"""Caffe's Concat, Slice, Split, Tile, Reshape, Flatten, Reduction, ArgMax and BatchReindex against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.errors import IndexRangeError, TextError
from tests.caffe import oracles_shapes as oracle
from tests.caffe.layer_runner import inputs_text, run_layer, translate

SHAPE = (2, 3, 4, 5)


def text(kind, param="", bottoms="x", tops="y"):
    names = " ".join(f'bottom: "{b}"' for b in bottoms) + " " + " ".join(f'top: "{t}"' for t in tops)
    return f'layer {{ name: "layer" type: "{kind}" {names} {param} }}'


def close(actual, expected, what=""):
    assert actual.shape == expected.shape, what
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12, err_msg=what)


def check_one(layer, x, y, g, dx):
    run = run_layer(layer, {"x": x}, seeds={"y": g})
    close(run.blobs["y"], y, "y")
    close(run.input_gradients["x"], dx, "dx")


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_concat_and_slice(axis, count):
    rng = np.random.default_rng(count)
    sizes = rng.integers(1, 4, count)
    shapes = [tuple(int(n) if i == axis % 4 else d for i, d in enumerate(SHAPE)) for n in sizes]
    xs, total = [rng.normal(size=s) for s in shapes], int(sizes.sum())
    g = rng.normal(size=tuple(total if i == axis % 4 else d for i, d in enumerate(SHAPE)))
    y, grads = oracle.concat(xs, g, axis)
    names = "xuv"[:count]
    run = run_layer(
        text("Concat", f"concat_param {{ axis: {axis} }}", names), dict(zip(names, xs, strict=True)), seeds={"y": g}
    )
    close(run.blobs["y"], y)
    for name, expected in zip(names, grads, strict=True):
        close(run.input_gradients[name], expected, name)
    points, tops = np.cumsum(sizes)[:-1].tolist(), "abc"[:count]
    stated = " ".join(f"slice_point: {p}" for p in points)
    run = run_layer(
        text("Slice", f"slice_param {{ axis: {axis} {stated} }}", "x", tops),
        {"x": y},
        seeds=dict(zip(tops, grads, strict=True)),
    )
    for name, expected in zip(tops, oracle.slices(y, points, axis), strict=True):
        close(run.blobs[name], expected, name)
    close(run.input_gradients["x"], g)


def test_old_names_of_the_axis_and_even_parts():
    x = np.arange(24.0).reshape(2, 6, 2)
    run = run_layer(text("Slice", "slice_param { slice_dim: 1 }", "x", "abc"), {"x": x}, seeds={})
    for name, part in zip("abc", np.split(x, 3, 1), strict=True):
        close(run.blobs[name], part)
    run = run_layer(text("Concat", "concat_param { concat_dim: 0 }", "xx"), {"x": x}, seeds={})
    close(run.blobs["y"], np.concatenate([x, x]))


def test_split_adds_the_gradients():
    rng = np.random.default_rng(0)
    x, a, b = rng.normal(size=(3, 2, 3))
    run = run_layer(text("Split", "", "x", "ab"), {"x": x}, seeds={"a": a, "b": b})
    close(run.blobs["a"], x)
    close(run.blobs["b"], x)
    close(run.input_gradients["x"], a + b)


@pytest.mark.parametrize("axis", [0, 1, 3, -2])
@pytest.mark.parametrize("tiles", [1, 3])
def test_tile(axis, tiles):
    rng = np.random.default_rng(tiles)
    x = rng.normal(size=SHAPE)
    g = rng.normal(size=tuple(d * tiles if i == axis % 4 else d for i, d in enumerate(SHAPE)))
    y, dx = oracle.tile(x, g, axis, tiles)
    check_one(text("Tile", f"tile_param {{ axis: {axis} tiles: {tiles} }}"), x, y, g, dx)


@pytest.mark.parametrize(("dims", "axis", "num_axes"), [
    ((0, -1), 0, -1), ((0, 0, -1), 0, -1), ((2, 60), 0, -1), ((-1,), 0, -1), ((6, -1), 0, 2), ((-1, 6), 0, 2),
    ((1,), 1, 0), ((1, 1), -1, 0), ((1,), 0, 0), ((3, 4, 5, 2), 0, -1), ((0, 20), 1, -1), ((2, 2), 2, 1),
    ((-1, 2), -3, 1), ((0, 0, 0, 0), 0, -1), ((0, -1, 0, 0), 0, -1), ((-1, 0), 1, 2), ((4, 30), 0, -1),
])  # fmt: skip
def test_reshape(dims, axis, num_axes):
    rng = np.random.default_rng(len(dims))
    shape = oracle.reshape_shape(SHAPE, dims, axis, num_axes)
    x, g = rng.normal(size=SHAPE), rng.normal(size=shape)
    stated = " ".join(f"dim: {d}" for d in dims)
    layer = text("Reshape", f"reshape_param {{ shape {{ {stated} }} axis: {axis} num_axes: {num_axes} }}")
    check_one(layer, x, x.reshape(shape), g, g.reshape(SHAPE))


@pytest.mark.parametrize(("axis", "end"), [(1, -1), (0, 1), (0, -1), (2, 3), (-2, -1), (1, 1), (3, 3), (1, 2)])
def test_flatten(axis, end):
    rng = np.random.default_rng(axis % 4)
    shape = oracle.flatten_shape(SHAPE, axis, end)
    x, g = rng.normal(size=SHAPE), rng.normal(size=shape)
    layer = text("Flatten", f"flatten_param {{ axis: {axis} end_axis: {end} }}")
    check_one(layer, x, x.reshape(shape), g, g.reshape(SHAPE))


def test_shapes_that_keep_the_batch_hold_for_any_batch():
    net = translate(inputs_text({"x": np.zeros(SHAPE)}) + text("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"))
    assert net.net.nodes[0].layer.target_shape == (60,)
    net = translate(inputs_text({"x": np.zeros(SHAPE)}) + text("Flatten", "flatten_param { axis: 2 }"))
    assert (net.net.nodes[0].layer.target_shape, net.net.nodes[0].layer.axis) == ((3, 20), 1)


@pytest.mark.parametrize("operation", ["SUM", "ASUM", "SUMSQ", "MEAN"])
@pytest.mark.parametrize("axis", [0, 1, 3, -2])
@pytest.mark.parametrize("coeff", [1.0, -0.5, 0.0])
def test_reduction(operation, axis, coeff):
    rng = np.random.default_rng(axis % 4)
    x = rng.integers(-2, 3, SHAPE).astype(float)
    g = rng.normal(size=SHAPE[: axis % 4])
    y, dx = oracle.reduction(x, g, operation, axis, coeff)
    layer = text("Reduction", f"reduction_param {{ operation: {operation} axis: {axis} coeff: {coeff} }}")
    check_one(layer, x, np.asarray(y), g, dx)


@pytest.mark.parametrize("shape", [(3, 6), (5, 1), (2, 3, 4), (2, 3, 2, 2), (2, 2, 2, 1, 3), (4,)])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("out_max_val", [False, True])
def test_argmax(shape, axis, out_max_val):
    if axis == 1 and len(shape) == 1:
        axis = -1
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-3, 4, shape).astype(float)  # with ties
    size = int(np.prod(shape[1:])) if axis is None else shape[axis]
    for k in sorted({1, min(2, size), size}):
        stated = "" if axis is None else f"axis: {axis}"
        layer = text("ArgMax", f"argmax_param {{ top_k: {k} out_max_val: {str(out_max_val).lower()} {stated} }}")
        for dtype in ("float64", "float32"):
            run = run_layer(layer, {"x": x}, seeds={}, dtype=dtype, level="native")
            assert run.blobs["y"].dtype == dtype
            close(run.blobs["y"], oracle.argmax(x, axis, k, out_max_val))


def test_batch_reindex():
    rng = np.random.default_rng(0)
    x, g, positions = rng.normal(size=(4, 2, 3)), rng.normal(size=(5, 2, 3)), np.array([3.0, 0, 3, 1, 3])
    y, dx = oracle.batch_reindex(x, positions, g)
    run = run_layer(text("BatchReindex", "", "xi"), {"x": x, "i": positions}, seeds={"y": g})
    close(run.blobs["y"], y)
    close(run.input_gradients["x"], dx)
    assert "i" not in run.input_gradients
    with pytest.raises(IndexRangeError, match="index 4 is out of range: the valid ones are 0 to 3"):
        run_layer(text("BatchReindex", "", "xi"), {"x": x, "i": positions + 1}, seeds={})


@pytest.mark.parametrize(("layer", "message"), [
    (text("Concat", "", "xu"), r"\[2, 6\], \[3, 6\] must be equal but along axis 1"),
    (text("Concat", "concat_param { axis: 0 }", "xw"), "must be equal but along axis 0"),
    (text("Concat", "concat_param { axis: 1 concat_dim: 1 }", "xx"), "there is one axis"),
    (text("Concat", "concat_param { axis: 2 }", "xx"), r"axis 2 is not one of the 2 axes of \[2, 6\]"),
    (text("Concat", "concat_param { concat_dim: 7 }", "xx"), "concat_dim 7 is not one of the 2 axes"),
    (text("Slice", "slice_param { slice_point: 2 }", "x", "abc"), "1 slice_point and 3 tops, which take 2"),
    (text("Slice", "slice_param { slice_point: [4, 2] }", "x", "abc"), r"slice_point \[4, 2\] must ascend"),
    (text("Slice", "slice_param { slice_point: [0] }", "x", "ab"), "must ascend"),
    (text("Slice", "slice_param { slice_point: [9] }", "x", "ab"), r"the end of axis 1 of \[2, 6\], which has 6"),
    (text("Slice", "", "x", "abcd"), "4 tops do not divide axis 1"),
    (text("Tile", "tile_param { axis: 1 }"), "tiles must be given"),
    (text("Tile", "tile_param { tiles: 0 }"), "at least 1, not 0"),
    (text("Tile", "tile_param { tiles: 2 axis: 2 }"), "axis 2 is not one of the 2 axes"),
    (text("Tile", "tile_param { tiles: 2000000000 }"), r"its output \[2, 12000000000\] has more than 2147483647"),
    (text("Reshape", "reshape_param { shape { dim: 0 dim: 4 } }"), r"the shape \[2, 4\] has 8 elements"),
    (text("Reshape", "reshape_param { shape { dim: -1 dim: 7 } }"), r"12 elements of \[2, 6\] do not divide by the 7"),
    (text("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), "several -1"),
    (text("Reshape", "reshape_param { shape { dim: -2 } }"), "sizes below -1"),
    (text("Reshape", "reshape_param { shape { dim: 1 dim: 0 } axis: 1 }"), "a 0 at axis 2, which the bottom"),
    (text("Reshape", "reshape_param { shape { dim: 1 } axis: 3 }"), "axis 3 must be from -3 to 2"),
    (text("Reshape", "reshape_param { shape { dim: 1 } axis: 1 num_axes: 2 }"), "reach beyond the 2 axes"),
    (text("Reshape", "reshape_param { shape { dim: 1 } num_axes: -2 }"), "num_axes must be at least 0"),
    (text("Reshape", "reshape_param { shape { dim: 0 dim: 0 } }", "x", "x"), "cannot be computed in place"),
    (text("Flatten", "", "x", "x"), "cannot be computed in place"),
    (text("Flatten", "flatten_param { axis: 2 }"), "axis 2 is not one of the 2 axes"),
    (text("Flatten", "flatten_param { end_axis: -3 }"), "axis -3 is not one of the 2 axes"),
    (text("Reduction", "reduction_param { axis: 2 }"), "axis 2 is not one of the 2 axes"),
    (text("ArgMax", "argmax_param { top_k: 7 }"), r"top_k must be from 1 to 6, .* of \[2, 6\], not 7"),
    (text("ArgMax", "argmax_param { top_k: 0 }"), "top_k must be from 1 to 6"),
    (text("ArgMax", "argmax_param { top_k: 3 axis: 0 }"), "elements along axis 0"),
    (text("BatchReindex", "", "xu"), r"positions along one axis, its shape is \[3, 6\]"),
    (text("Split", "", "xu", "ab"), "it has 2 bottoms"),
], ids=lambda v: v[-60:])  # fmt: skip
def test_mistakes_name_the_layer_and_both_sides(layer, message):
    inputs = {"x": np.ones((2, 6)), "u": np.ones((3, 6)), "w": np.ones((2, 5))}
    with pytest.raises(TextError, match=message) as caught:
        translate(inputs_text(inputs) + layer, path="net.prototxt")
    assert "layer 'layer'" in str(caught.value)
