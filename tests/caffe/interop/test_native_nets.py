"""Weights of Caffe in nets of ours: BatchNorm with its Scale, by names of layers, in both files."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.interop.snapshot import write_caffemodel
from prototorch.errors import WeightsError
from tests.caffe.interop.test_snapshots import arrays_of, translated

SOURCE = """
name: "n"
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: 5 dim: 5 }} }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param {{ num_output: 4 kernel_size: 3 bias_term: false }} }}
layer {{ name: "{norm}" type: "BatchNorm" bottom: "conv1" top: "{top}" }}
layer {{ name: "{scale}" type: "Scale" bottom: "{top}" top: "{top}" scale_param {{ bias_term: true }} }}
layer {{ name: "relu" type: "ReLU" bottom: "{top}" top: "{top}" }}
layer {{ name: "fc" type: "InnerProduct" bottom: "{top}" top: "fc" inner_product_param {{ num_output: 2 }} }}
"""
NATIVE = """
input {{ name: "data"  shape: [3, 5, 5] }}
Conv2D {{ name: "conv1"  filters: 4  kernel_size: 3  use_bias: false }}
BatchNormalization {{ name: "{norm}"  epsilon: 1e-5 }}
ReLU {{ }}
Flatten {{ }}
Dense {{ name: "fc"  units: 2 }}
"""
#: names of a BatchNorm and its Scale, as in ResNet, DenseNet, MobileNet and files written here
NAMES = [("bn1", "scale1"), ("conv1/bn", "conv1/scale"), ("norm1", "scale1"), ("bn1", "bn1_scale")]


def caffe_file(folder, norm, scale, ending="", weight=3.0):
    net = translated(SOURCE.format(norm=norm, scale=scale, top="b"), "TEST")
    weights = arrays_of(net)
    by_blob = {(p.layer, p.index): p.weights[0] for p in net.params}
    weights[by_blob[norm, 1]] = np.abs(weights[by_blob[norm, 1]]) + 1
    weights[by_blob[norm, 2]][:] = weight
    path = folder / f"net.caffemodel{ending}"
    write_caffemodel(path, net, weights)
    return path, {key: weights[name] for key, name in by_blob.items()}


def native_model(folder, norm):
    path = folder / "net.proto"
    path.write_text(NATIVE.format(norm=norm))
    return pt.load_model(path)


@pytest.mark.parametrize("ending", ["", ".h5"])
@pytest.mark.parametrize(("norm", "scale"), NAMES)
def test_a_normalization_and_its_scale_are_one_layer(tmp_path, norm, scale, ending):
    path, blobs = caffe_file(tmp_path, norm, scale, ending)
    model = native_model(tmp_path, norm)
    report = model.load_weights(path)
    assert not report.missing
    assert not report.unexpected
    weights = model.weights
    np.testing.assert_allclose(weights[f"{norm}/moving_mean"], blobs[norm, 0] / 3, rtol=1e-6)
    np.testing.assert_allclose(weights[f"{norm}/moving_variance"], blobs[norm, 1] / 3, rtol=1e-6)
    np.testing.assert_array_equal(weights[f"{norm}/gamma"], blobs[scale, 0])
    np.testing.assert_array_equal(weights[f"{norm}/beta"], blobs[scale, 1])


def test_the_outputs_are_those_of_the_definition(tmp_path):
    path, blobs = caffe_file(tmp_path, "bn1", "scale1")
    model = native_model(tmp_path, "bn1")
    model.load_weights(path)
    x = np.random.default_rng(5).standard_normal((2, 3, 5, 5)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, blobs["conv1", 0])
    mean, variance = (blobs["bn1", i].reshape(1, 4, 1, 1) / 3 for i in (0, 1))
    y = (y - mean) / np.sqrt(variance + 1e-5)
    y = np.maximum(y * blobs["scale1", 0].reshape(1, 4, 1, 1) + blobs["scale1", 1].reshape(1, 4, 1, 1), 0)
    expected = y.reshape(2, -1) @ blobs["fc", 0] + blobs["fc", 1]
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-4, atol=1e-5)


def test_a_weight_of_zero_gives_zero_statistics(tmp_path):
    path, _ = caffe_file(tmp_path, "bn1", "scale1", weight=0.0)
    model = native_model(tmp_path, "bn1")
    model.load_weights(path)
    assert not model.weights["bn1/moving_mean"].any()
    assert not model.weights["bn1/moving_variance"].any()


def test_a_scale_that_the_net_has_itself_stays_a_layer(tmp_path):
    path, blobs = caffe_file(tmp_path, "bn1", "scale1")
    two = 'scale: false  center: false }\nScale { name: "scale1"  use_bias: true }'
    text = NATIVE.format(norm="bn1").replace("epsilon: 1e-5 }", two)
    (tmp_path / "two.proto").write_text(text)
    model = pt.load_model(tmp_path / "two.proto")
    report = model.load_weights(path)
    assert not report.missing
    assert not report.unexpected
    np.testing.assert_array_equal(model.weights["scale1/scale"], blobs["scale1", 0])


def test_a_factor_is_never_taken_for_a_shift(tmp_path):
    path, _ = caffe_file(tmp_path, "bn1", "scale1")
    (tmp_path / "shift.proto").write_text(NATIVE.format(norm="bn1").replace("1e-5", "1e-5  scale: false"))
    with pytest.raises(WeightsError, match="bn1/beta"):
        pt.load_model(tmp_path / "shift.proto").load_weights(path)


def test_names_that_our_nets_cannot_have_are_found(tmp_path):
    path, blobs = caffe_file(tmp_path, "bn 1", "scale@1")
    model = native_model(tmp_path, "bn_1")
    report = model.load_weights(path)
    assert not report.missing
    assert not report.unexpected
    np.testing.assert_array_equal(model.weights["bn_1/gamma"], blobs["scale@1", 0])


def test_blobs_that_several_layers_share_are_not_unexpected(tmp_path):
    shared = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "one" type: "InnerProduct" bottom: "data" top: "one" param { name: "w" } param { name: "b" }
        inner_product_param { num_output: 3 } }
layer { name: "two" type: "InnerProduct" bottom: "one" top: "two" param { name: "w" } param { name: "b" }
        inner_product_param { num_output: 3 } }
"""
    net = translated(shared, "TEST")
    write_caffemodel(tmp_path / "net.caffemodel", net, arrays_of(net))
    text = 'input { name: "data"  shape: [3] }\n' + "".join(
        f'Dense {{ name: "{name}"  units: 3  weights: "one" }}\n' for name in ("one", "two")
    )
    (tmp_path / "net.proto").write_text(text)
    model = pt.load_model(tmp_path / "net.proto")
    report = model.load_weights(tmp_path / "net.caffemodel")
    assert not report.missing
    assert not report.unexpected


def test_a_shared_weight_keeps_its_place_among_the_blobs(tmp_path):
    """A Scale whose factor is another layer's: its own shift is the second blob, which has the shape of the first."""
    shared = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "one" type: "Scale" bottom: "data" top: "one" param { name: "w" } param { name: "b" }
        scale_param { bias_term: true } }
layer { name: "two" type: "Scale" bottom: "one" top: "two" param { name: "w" } param { name: "c" }
        scale_param { bias_term: true } }
"""
    net = translated(shared, "TEST")
    weights = arrays_of(net)
    write_caffemodel(tmp_path / "net.caffemodel", net, weights)
    (tmp_path / "net.proto").write_text(
        'input { name: "data"  shape: [3] }\n'
        'Scale { name: "one"  use_bias: true }\n'
        'Scale { name: "two"  use_bias: true  share { weight: "scale"  source: "one/scale" } }\n'
    )
    model = pt.load_model(tmp_path / "net.proto")
    report = model.load_weights(tmp_path / "net.caffemodel")
    assert not report.missing
    assert not report.unexpected
    np.testing.assert_array_equal(model.weights["two/bias"], weights["two/bias"])
