"""InnerProduct, Embed and Caffe's fillers, against NumPy and against their distributions."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch import initializers
from prototorch.errors import TextError
from prototorch.initializers.base import compute_fans
from tests.caffe.layer_runner import inputs_text, run_layer, translate

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [
    ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 4), -1), ((2, 3, 4), 0), ((2, 3, 4, 5), 2), ((4, 6), 1), ((5,), 0)
])  # fmt: skip
def test_inner_product(shape, axis, transpose):
    rng = np.random.default_rng(0)
    first = axis % len(shape)
    count = int(np.prod(shape[first:]))
    x, w, bias = rng.normal(size=shape), rng.normal(size=(4, count)), rng.normal(size=4)
    blob = w.T if transpose else w
    flag = "transpose: true" if transpose else ""
    text = (
        f'layer {{ name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param {{ num_output: 4 '
        f"axis: {axis} {flag} }} }}"
    )
    g = rng.normal(size=(*shape[:first], 4))
    run = run_layer(text, {"x": x}, {("ip", 0): blob, ("ip", 1): bias}, {"y": g})
    rows, g_rows = x.reshape(-1, count), g.reshape(-1, 4)
    assert run.blobs["y"].shape == g.shape
    np.testing.assert_allclose(run.blobs["y"].reshape(-1, 4), rows @ w.T + bias, **CLOSE)
    np.testing.assert_allclose(run.input_gradients["x"].reshape(-1, count), g_rows @ w, **CLOSE)
    dw = g_rows.T @ rows
    np.testing.assert_allclose(run.param_gradients["ip", 0], dw.T if transpose else dw, **CLOSE)
    np.testing.assert_allclose(run.param_gradients["ip", 1], g_rows.sum(axis=0), **CLOSE)


@pytest.mark.parametrize("bias_term", [True, False])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 1, 4)])
def test_embed(shape, bias_term):
    rng = np.random.default_rng(1)
    index, table, bias = rng.integers(0, 6, shape), rng.normal(size=(6, 3)), rng.normal(size=3)
    text = (
        f'layer {{ name: "e" type: "Embed" bottom: "i" top: "y" embed_param {{ num_output: 3 input_dim: 6 '
        f"bias_term: {str(bias_term).lower()} }} }}"
    )
    g = rng.normal(size=(*shape, 3))
    params = {("e", 0): table} | ({("e", 1): bias} if bias_term else {})
    run = run_layer(text, {"i": index.astype(float)}, params, {"y": g})
    np.testing.assert_allclose(run.blobs["y"], table[index] + bias * bias_term, **CLOSE)
    dw = np.zeros_like(table)
    np.add.at(dw, index.reshape(-1), g.reshape(-1, 3))
    np.testing.assert_allclose(run.param_gradients["e", 0], dw, **CLOSE)
    assert (("e", 1) in run.param_gradients) == bias_term


# ---------------------------------------------------------------- fillers

BLOBS = {
    "Convolution": (40, 12, 5, 5),  # num_output 40, 24 channels in 2 groups
    "Deconvolution": (24, 20, 5, 5),
    "InnerProduct": (40, 600),
    "transposed": (600, 40),
    "Embed": (300, 40),
}


def filled(kind: str, filler: str, bias: str = "") -> dict[int, np.ndarray]:
    """The blobs of a layer as its fillers draw them, in Caffe's shapes."""
    x = {"InnerProduct": (2, 600), "transposed": (2, 600), "Embed": (2,)}.get(kind, (1, 24, 8, 8))
    params = {
        "InnerProduct": "inner_product_param { num_output: 40",
        "transposed": "inner_product_param { num_output: 40 transpose: true",
        "Embed": "embed_param { num_output: 40 input_dim: 300",
    }
    param = params.get(kind, "convolution_param { num_output: 40 group: 2 kernel_size: 5")
    type_name = "InnerProduct" if kind == "transposed" else kind
    text = (
        f'layer {{ name: "l" type: "{type_name}" bottom: "x" top: "y" {param} weight_filler {{ {filler} }} {bias} }} }}'
    )
    net = translate(inputs_text({"x": np.zeros(x)}) + text)
    weights = net.weights
    blobs = {}
    for param_ in net.params:
        (name,) = param_.weights
        spec = weights[name]
        fans = spec.fans or compute_fans(spec.spec.shape)
        values = spec.initializer.values(spec.spec.shape, np.random.default_rng(3), fans)
        (blobs[param_.index],) = param_.layout.transform.to_theirs((values,))
    return blobs


@pytest.mark.parametrize("norm", ["FAN_IN", "FAN_OUT", "AVERAGE"])
@pytest.mark.parametrize("filler", ["xavier", "msra"])
@pytest.mark.parametrize("kind", BLOBS)
def test_variance_follows_from_the_blobs_shape(kind, filler, norm):
    shape = BLOBS[kind]
    size = int(np.prod(shape))
    fan_in, fan_out = size / shape[0], size / shape[1]
    n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "AVERAGE": (fan_in + fan_out) / 2}[norm]
    values = filled(kind, f'type: "{filler}" variance_norm: {norm}')[0]
    assert values.shape == shape
    variance = {"xavier": 1, "msra": 2}[filler] / n
    assert abs(values.mean()) < 5 * np.sqrt(variance / size)
    assert abs(values.var() / variance - 1) < 8 / np.sqrt(size)
    if filler == "xavier":
        assert 0.98 * np.sqrt(3 / n) < np.abs(values).max() <= np.sqrt(3 / n) * (1 + 1e-6)
    else:
        assert np.abs(values).max() > 3 * np.sqrt(variance)  # not cut off


@pytest.mark.parametrize("kind", BLOBS)
def test_positive_unitball_rows_add_up_to_1(kind):
    values = filled(kind, 'type: "positive_unitball"')[0]
    assert values.min() >= 0
    np.testing.assert_allclose(values.reshape(values.shape[0], -1).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("kind", BLOBS)
def test_sparse_gaussian(kind):
    values = filled(kind, 'type: "gaussian" mean: 0.5 std: 0.1 sparse: 4')[0]
    share = 4 / BLOBS[kind][0]
    assert abs((values != 0).mean() - share) < 5 * np.sqrt(share / values.size)
    assert abs(values[values != 0].mean() - 0.5) < 0.02


def test_constant_uniform_gaussian():
    assert (filled("InnerProduct", 'type: "constant" value: 0.3')[0] == np.float32(0.3)).all()
    assert (filled("InnerProduct", "")[0] == 0).all()  # the default filler
    uniform = filled("InnerProduct", 'type: "uniform" min: -0.5 max: 2')[0]
    assert -0.5 <= uniform.min() < -0.49
    assert 1.99 < uniform.max() <= 2
    normal = filled("InnerProduct", 'type: "gaussian" mean: 1 std: 3')[0]
    assert abs(normal.mean() - 1) < 0.1
    assert abs(normal.std() - 3) < 0.1
    bias = filled("InnerProduct", "", 'bias_filler { type: "constant" value: 0.1 }')[1]
    assert (bias == np.float32(0.1)).all()
    wide = filled("InnerProduct", "", 'bias_filler { type: "xavier" }')[1]  # one connection in
    assert 1.2 < np.abs(wide).max() <= np.sqrt(3)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_bilinear_kernel(size):
    f = np.ceil(size / 2)
    c = (size - 1) / (2 * f)
    expected = [[(1 - abs(x / f - c)) * (1 - abs(y / f - c)) for x in range(size)] for y in range(size)]
    values = initializers.Bilinear().values((3, 2, size, size), np.random.default_rng(0), (1, 1))
    np.testing.assert_allclose(values, np.broadcast_to(expected, values.shape), rtol=1e-6)
    assert values.flags.c_contiguous


def test_readable_initializers():
    text = inputs_text({"x": np.zeros((2, 600))}) + "".join(
        f'layer {{ name: "l{i}" type: "InnerProduct" bottom: "x" top: "y{i}" inner_product_param {{ num_output: 3 '
        f"weight_filler {{ {filler} }} }} }}"
        for i, filler in enumerate(
            [
                'type: "xavier"',
                'type: "xavier" variance_norm: AVERAGE',
                'type: "gaussian" std: 0.01',
                'type: "constant" value: 1',
            ]
        )
    )
    found = [node.layer.kernel_initializer for node in translate(text).net.nodes]
    expected = [
        initializers.LecunUniform(),
        initializers.GlorotUniform(),
        initializers.RandomNormal(stddev=0.01),
        initializers.Ones(),
    ]
    assert found == expected


@pytest.mark.parametrize(("filler", "reason"), [
    ('type: "xavir"', "Did you mean 'xavier'"), ('type: "gaussian" std: 0', "std must be above 0"),
    ('type: "xavier" sparse: 2', "sparse is for gaussian fillers"), ('type: "uniform" min: 2', "min must not be above"),
    ('type: "gaussian" sparse: 41', "from 0 to the 40 units"), ('type: "bilinear"', "a blob of 4 axes"),
])  # fmt: skip
def test_fillers_that_caffe_refuses(filler, reason):
    with pytest.raises(TextError, match=reason):
        filled("InnerProduct", filler)
