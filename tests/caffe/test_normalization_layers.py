"""Caffe's BatchNorm, Scale, Bias, MVN and Softmax against NumPy: all fields, both phases, gradients, statistics."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.errors import TextError
from tests.caffe import oracles_shapes as oracle
from tests.caffe.layer_runner import inputs_text, run_layer, translate


def text(kind, param="", bottoms="x"):
    names = " ".join(f'bottom: "{b}"' for b in bottoms)
    return f'layer {{ name: "layer" type: "{kind}" {names} top: "y" {param} }}'


def close(actual, expected, what="", tolerance=1e-11):
    assert actual.shape == expected.shape, what
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def single(value):
    return float(np.float32(value))


@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 5), (3, 2, 2, 3), (1, 4), (2, 2, 2, 1, 3)])
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
@pytest.mark.parametrize("uses_global", [None, True, False])
@pytest.mark.parametrize(("fraction", "eps"), [(None, None), (0.9, 0.01), (0.5, 1e-3), (1.0, 0.1)])
def test_batch_norm(shape, phase, uses_global, fraction, eps):
    rng = np.random.default_rng([*shape, len(phase)])
    x, g, channels = rng.normal(size=shape) * 2 + 1, rng.normal(size=shape), shape[1]
    blobs = (rng.normal(size=channels), rng.uniform(0.5, 3, channels), rng.uniform(0.5, 2, 1))
    fields = "" if uses_global is None else f"use_global_stats: {str(uses_global).lower()} "
    fields += "" if fraction is None else f"moving_average_fraction: {fraction} eps: {eps}"
    is_global = phase == "TEST" if uses_global is None else uses_global
    single_fraction, single_eps = single(0.999 if fraction is None else fraction), single(1e-5 if eps is None else eps)
    y, dx, after = oracle.batch_norm(x, g, blobs, is_global, single_fraction, single_eps)
    run = run_layer(
        text("BatchNorm", f"batch_norm_param {{ {fields} }}"),
        {"x": x},
        {("layer", i): blob for i, blob in enumerate(blobs)},
        {"y": g},
        phase,
    )
    tolerance = 1e-6 if x.size == channels else 1e-9  # of one element a channel the variance is 0
    close(run.blobs["y"], y, "y", tolerance)
    close(run.input_gradients["x"], dx, "dx", tolerance)
    assert not run.param_gradients
    names = [param.weights[0] for param in run.net.params]
    assert [p.shape for p in run.net.params] == [(channels,), (channels,), (1,)]
    assert [p.lr_mult for p in run.net.params] == [0, 0, 0]
    assert set(run.updates) == (set() if is_global else set(names))
    for name, expected in zip(names, after, strict=True):
        if name in run.updates:
            close(run.updates[name], expected, name, 1e-9)


@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_batch_norm_without_statistics_has_mean_and_variance_0(phase):
    x = np.arange(6.0).reshape(3, 2)
    run = run_layer(
        text("BatchNorm", "batch_norm_param { use_global_stats: true eps: 0.25 }"), {"x": x}, seeds={}, phase=phase
    )
    close(run.blobs["y"], x / 0.5)


@pytest.mark.parametrize(("kind", "param"), [("Scale", "scale_param"), ("Bias", "bias_param")])
@pytest.mark.parametrize(("axis", "num_axes"), [(1, 1), (0, 1), (0, 2), (-1, 1), (1, -1), (2, 2), (0, 0), (-3, 0)])
@pytest.mark.parametrize("form", ["weight", "weight and bias", "bottom", "bottom and bias"])
def test_scale_and_bias(kind, param, axis, num_axes, form):
    rng = np.random.default_rng(num_axes + 2)
    shape, with_bias = (2, 3, 4, 2), "and bias" in form and kind == "Scale"
    start = axis % 4
    own = shape[start:] if num_axes == -1 else shape[start : start + num_axes]
    x, s, b, g = (rng.normal(size=n) for n in (shape, own, own, shape))
    s, b = np.asarray(s), np.asarray(b)
    if kind == "Scale":
        y, dx, ds, db = oracle.scale(x, s, b if with_bias else None, g, axis)
    else:
        y, dx, _, ds = oracle.scale(x, np.ones(own), s, g, axis)
        db = None
    fields = f"axis: {axis} num_axes: {num_axes}" + (" bias_term: true" if with_bias else "")
    layer = text(kind, f"{param} {{ {fields} }}", "xs" if "bottom" in form else "x")
    blobs = ([] if "bottom" in form else [s]) + ([b] if with_bias else [])
    inputs = {"x": x, "s": s} if "bottom" in form else {"x": x}
    run = run_layer(layer, inputs, {("layer", i): blob for i, blob in enumerate(blobs)}, {"y": g})
    close(run.blobs["y"], y, "y")
    close(run.input_gradients["x"], dx, "dx")
    close(run.input_gradients["s"] if "bottom" in form else run.param_gradients["layer", 0], np.asarray(ds), "ds")
    if with_bias:
        close(run.param_gradients["layer", len(blobs) - 1], np.asarray(db), "db")
    assert [p.shape for p in run.net.params] == [blob.shape for blob in blobs]


def test_scale_starts_at_1_and_bias_at_0():
    x = np.ones((2, 3))
    net = translate(inputs_text({"x": x}) + text("Scale", "scale_param { bias_term: true }"))
    assert [type(net.weights[p.weights[0]].initializer).__name__ for p in net.params] == ["Ones", "Zeros"]
    net = translate(inputs_text({"x": x}) + text("Scale", "scale_param { filler { value: 3 } }"))
    assert net.weights[net.params[0].weights[0]].initializer.value == 3


@pytest.mark.parametrize("shape", [(2, 3, 4, 2), (3, 2, 5), (4, 3), (5,)])
@pytest.mark.parametrize("normalize_variance", [True, False])
@pytest.mark.parametrize("across_channels", [True, False])
@pytest.mark.parametrize("eps", [None, 0.3])
def test_mvn(shape, normalize_variance, across_channels, eps):
    rng = np.random.default_rng(len(shape))
    x, g = rng.normal(size=shape) * 2 + 1, rng.normal(size=(*shape, *(1,) * (4 - len(shape))))
    y, dx = oracle.mvn(x, g, normalize_variance, across_channels, single(1e-9 if eps is None else eps))
    fields = f"normalize_variance: {str(normalize_variance).lower()} across_channels: {str(across_channels).lower()}"
    fields += "" if eps is None else f" eps: {eps}"
    run = run_layer(text("MVN", f"mvn_param {{ {fields} }}"), {"x": x}, seeds={"y": g})
    close(run.blobs["y"], y, "y", 1e-8)
    close(run.input_gradients["x"], dx, "dx", 1e-8)


@pytest.mark.parametrize(("shape", "axis"), [((4, 5), 1), ((2, 3, 4), 0), ((2, 3, 2, 2), -1), ((6,), 0)])
def test_softmax(shape, axis):
    rng = np.random.default_rng(len(shape))
    x, g = rng.normal(size=shape) * 30, rng.normal(size=shape)
    y, dx = oracle.softmax(x, g, axis)
    run = run_layer(text("Softmax", f"softmax_param {{ axis: {axis} engine: CAFFE }}"), {"x": x}, seeds={"y": g})
    close(run.blobs["y"], y)
    close(run.input_gradients["x"], dx)


@pytest.mark.parametrize(("layer", "message"), [
    (text("BatchNorm", "", "v"), r"channels as axis 1, its shape is \[3\]"),
    (text("BatchNorm", "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }"),
     "4 param fields, but 3 parameter blobs"),
    (text("Scale", "", "xu"), r"the scale \[4\], must have the sizes from axis 1 on of its first, \[2, 3, 5\]"),
    (text("Scale", "scale_param { axis: 3 }"), r"axis 3 is not one of the 3 axes of \[2, 3, 5\]"),
    (text("Scale", "scale_param { axis: 2 num_axes: 2 }"), "axis 2 and num_axes 2 reach beyond the 3 axes"),
    (text("Scale", "scale_param { num_axes: -2 }"), "num_axes must be at least 0, or -1"),
    (text("Bias", "", "xu"), r"the bias \[4\], must have the sizes from axis 1 on"),
    (text("Bias", "bias_param { num_axes: 3 }"), "reach beyond the 3 axes"),
    (text("Softmax", "softmax_param { axis: 5 }"), "axis 5 is not one of the 3 axes"),
    (text("MVN", "", "w"), "at most 4 axes"),
    (text("PReLU", "", "w"), "at most 4 axes"),
])  # fmt: skip
def test_mistakes_name_the_layer_and_both_sides(layer, message):
    inputs = {"x": np.ones((2, 3, 5)), "u": np.ones(4), "v": np.ones(3), "w": np.ones((1, 1, 1, 1, 1))}
    with pytest.raises(TextError, match=message) as caught:
        translate(inputs_text(inputs) + layer, path="net.prototxt")
    assert "layer 'layer'" in str(caught.value)
