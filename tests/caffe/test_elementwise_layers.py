"""Caffe's elementwise layers: all fields, random inputs with kinks among them, against its definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.errors import TextError
from tests.caffe import oracles_elementwise as oracle
from tests.caffe.layer_runner import inputs_text, run_layer, translate

SHAPES = [(5,), (3, 4), (2, 3, 2, 2)]
#: type, name of the parameter, oracle, fields, the range of inputs
CASES = [
    ("AbsVal", "", oracle.absval, {}, (-2, 2)),
    ("BNLL", "", oracle.bnll, {}, (-60, 60)),
    ("Sigmoid", "", oracle.sigmoid, {}, (-30, 30)),
    ("TanH", "", oracle.tanh, {}, (-5, 5)),
    *(("ReLU", "relu_param", oracle.relu, f, (-2, 2)) for f in ({}, {"negative_slope": 0.1}, {"negative_slope": -0.5})),
    *(("ELU", "elu_param", oracle.elu, f, (-3, 3)) for f in ({}, {"alpha": 0.3}, {"alpha": 0})),
    *(("Clip", "clip_param", oracle.clip, f, (-3, 3)) for f in ({"min": -1, "max": 2}, {"min": 0.25, "max": 0.25})),
    *(("Swish", "swish_param", oracle.swish, f, (-4, 4)) for f in ({}, {"beta": 2.5}, {"beta": -1}, {"beta": 0})),
    *(("Exp", "exp_param", oracle.exponential, f, (-2, 2)) for f in (
        {}, {"base": 2}, {"base": 0.5, "scale": 3}, {"shift": 1.5}, {"base": 10, "scale": -0.5, "shift": -1},
        {"scale": 0}, {"base": 1})),
    *(("Log", "log_param", oracle.logarithm, f, (0.5, 3)) for f in (
        {}, {"base": 2}, {"base": 0.5, "shift": 0.1}, {"scale": 2, "shift": 1}, {"base": 10, "scale": 0.3})),
    *(("Power", "power_param", oracle.power, f, (0.5, 3)) for f in (
        {}, {"scale": 2}, {"shift": -1}, {"power": 2}, {"power": 2, "scale": 0.3, "shift": -0.7}, {"power": 3},
        {"power": 0.5, "scale": 2}, {"power": -1, "shift": 0.5}, {"power": -0.75, "scale": 0.1}, {"power": 5},
        {"power": 0}, {"power": 0, "shift": 3}, {"scale": 0, "shift": 2, "power": 3}, {"scale": 0})),
    *(("Threshold", "threshold_param", oracle.threshold, f, (-2, 2)) for f in ({}, {"threshold": 0.5})),
]  # fmt: skip


def single(fields):
    """The fields as Caffe holds them."""
    return {name: float(np.float32(value)) for name, value in fields.items()}


def text(kind, param, fields, bottoms=1):
    inner = f"{param} {{ {' '.join(f'{k}: {v}' for k, v in fields.items())} }}" if fields else ""
    names = " ".join(f'bottom: "{b}"' for b in "xuvw"[:bottoms])
    return f'layer {{ name: "layer" type: "{kind}" {names} top: "y" {inner} }}'


def close(actual, expected, tolerance, what):
    assert actual.shape == expected.shape, what
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=what)


@pytest.mark.parametrize(
    ("kind", "param", "function", "fields", "bounds"), CASES, ids=lambda v: v.__name__ if callable(v) else str(v)
)
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_a_function_of_each_element(kind, param, function, fields, bounds, phase):
    rng = np.random.default_rng(len(kind) + len(fields))
    for shape in SHAPES:
        x, g = rng.uniform(*bounds, shape), rng.normal(size=shape)
        kinks = [v for v in (0.0, *single(fields).values()) if bounds[0] <= v <= bounds[1]]
        x.reshape(-1)[: len(kinks)] = kinks
        y, dx = function(x, g, **single(fields))
        run = run_layer(text(kind, param, fields), {"x": x}, seeds={"y": g}, phase=phase)
        close(run.blobs["y"], y, 1e-9, "y")
        if dx is None or not np.any(dx):
            assert not np.any(run.input_gradients.get("x", 0.0))
        else:
            close(run.input_gradients["x"], dx, 1e-9, "dx")
        narrow = run_layer(
            text(kind, param, fields), {"x": x}, seeds={"y": g}, phase=phase, dtype="float32", level="native"
        )
        close(narrow.blobs["y"], y.astype("f"), 2e-5, "y in float32")


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("operation", ["SUM", "SUM coeff", "PROD", "PROD unstable", "MAX"])
def test_eltwise(operation, count):
    rng = np.random.default_rng(count)
    xs = [rng.integers(-2, 3, (3, 4)).astype(float) for _ in range(count)]  # with ties and zeros
    g, coefficients = rng.normal(size=(3, 4)), [0.5, -1.0, 1.0, 0.0][:count]
    if operation.startswith("SUM"):
        coefficients = coefficients if "coeff" in operation else [1.0] * count
        y, grads = oracle.eltwise_sum(xs, g, coefficients)
    else:
        y, grads = (oracle.eltwise_prod if operation.startswith("PROD") else oracle.eltwise_max)(xs, g)
    fields = {"operation": operation.split()[0]}
    if "coeff" in operation:
        fields["coeff"] = f"[{', '.join(map(str, coefficients))}]"
    if "unstable" in operation:
        fields["stable_prod_grad"] = "false"
    run = run_layer(
        text("Eltwise", "eltwise_param", fields, count), dict(zip("xuvw", xs, strict=False)), seeds={"y": g}
    )
    close(run.blobs["y"], y, 1e-12, "y")
    for name, expected in zip("xuvw", grads, strict=False):
        close(run.input_gradients[name], expected, 1e-12, name)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (2, 3, 2, 2)])
@pytest.mark.parametrize("is_shared", [False, True])
def test_prelu(shape, is_shared):
    rng = np.random.default_rng(len(shape))
    x, g = rng.normal(size=shape), rng.normal(size=shape)
    x.reshape(-1)[:3] = 0
    slope = rng.normal(size=() if is_shared else shape[1:2])
    y, dx, dslope = oracle.prelu(x, g, slope)
    fields = {"channel_shared": "true"} if is_shared else {}
    run = run_layer(text("PReLU", "prelu_param", fields), {"x": x}, {("layer", 0): slope}, {"y": g})
    close(run.blobs["y"], y, 1e-12, "y")
    close(run.input_gradients["x"], dx, 1e-12, "dx")
    close(run.param_gradients["layer", 0], dslope, 1e-12, "slope")
    assert run.net.params[0].shape == slope.shape


def test_dropout_is_inverted_and_the_identity_in_test():
    x = np.ones((40, 50))
    layer = text("Dropout", "dropout_param", {"dropout_ratio": 0.25})
    net = translate(inputs_text({"x": x}) + layer)
    assert net.net.nodes[0].layer.rate == 0.25
    run = run_layer(layer, {"x": x}, seeds={"y": x}, phase="TEST")
    assert np.array_equal(run.blobs["y"], x)


@pytest.mark.parametrize(("layer", "message"), [
    (text("Exp", "exp_param", {"base": 0}), "base must be above 0, or -1 for e, not 0"),
    (text("Log", "log_param", {"base": -2}), "base must be above 0"),
    (text("Log", "log_param", {"base": 1}), "base must not be 1"),
    (text("Dropout", "dropout_param", {"dropout_ratio": 1}), "dropout_ratio must be from 0 to below 1, not 1"),
    (text("Eltwise", "eltwise_param", {"coeff": 1}, 2), "1 coeff and 2 bottoms"),
    (text("Eltwise", "eltwise_param", {"operation": "PROD", "coeff": "[1, 2]"}, 2), "for the operation SUM"),
    (text("Eltwise", "", {}, 1), "it has 1 bottoms, but a Eltwise layer has at least 2"),
    (text("Eltwise", "", {}, 3), r"must have the same shape, not \[2, 3\] and \[2, 3\] and \[2, 2\]"),
    (text("PReLU", "", {}).replace('"x"', '"w"'), r"channels as axis 1, its shape is \[3\]"),
])  # fmt: skip
def test_mistakes_name_the_layer_and_both_sides(layer, message):
    inputs = {"x": np.ones((2, 3)), "u": np.ones((2, 3)), "v": np.ones((2, 2)), "w": np.ones(3)}
    with pytest.raises(TextError, match=message) as caught:
        translate(inputs_text(inputs) + layer, path="net.prototxt")
    assert "layer 'layer'" in str(caught.value)
