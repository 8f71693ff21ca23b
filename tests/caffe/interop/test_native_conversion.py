"""Caffe's nets as a person would write them: the same outputs as the exact net, in our own forms."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.interop.export.net_export import export_net
from prototorch.caffe.interop.model_conversion.conversion import native_net
from prototorch.caffe.interop.net_text import read_prediction_net
from prototorch.caffe.interop.wire import iter_encoded
from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.upgrade import upgrade_net
from prototorch.errors import UsageError, WeightsError
from prototorch.interop.conversion import convert
from prototorch.interop.text_generation import generate_text
from prototorch.model.load import make_model


def _layer(name, kind, bottom, top, more=""):
    bottoms = "".join(f' bottom: "{b}"' for b in bottom.split())
    return f'layer {{ name: "{name}" type: "{kind}"{bottoms} top: "{top}" {more} }}\n'


def _conv(name, bottom, outputs, more="kernel_size: 3 pad: 1", filler='weight_filler { type: "xavier" }'):
    return _layer(name, "Convolution", bottom, name, f"convolution_param {{ num_output: {outputs} {more} {filler} }}")


INPUT = 'name: "net" layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [2, 4, 10, 9] } } }\n'
RESIDUAL = "".join(
    _conv(f"c{i}", f"r{i - 1}" if i else "x", 4)
    + _layer(f"bn{i}", "BatchNorm", f"c{i}", f"c{i}", "batch_norm_param { eps: 0.001 }")
    + _layer(f"sc{i}", "Scale", f"c{i}", f"c{i}", "scale_param { bias_term: true }")
    + _layer(f"add{i}", "Eltwise", f"c{i} {f'r{i - 1}' if i else 'x'}", f"a{i}")
    + _layer(f"relu{i}", "ReLU", f"a{i}", f"r{i}")
    for i in range(3)
)
NETS = {
    "alexnet": (
        _conv("conv1", "x", 8, "kernel_size: 5 stride: 2")
        + _layer("relu1", "ReLU", "conv1", "conv1")
        + _layer("norm1", "LRN", "conv1", "norm1", "lrn_param { local_size: 3 alpha: 0.0001 beta: 0.75 }")
        + _layer("pool1", "Pooling", "norm1", "pool1", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
        + _conv("conv2", "pool1", 6, "kernel_size: 3 pad: 1 group: 2")
        + _layer("relu2", "ReLU", "conv2", "conv2")
        + _layer("fc6", "InnerProduct", "conv2", "fc6", "inner_product_param { num_output: 5 }")
        + _layer("relu6", "ReLU", "fc6", "fc6")
        + _layer("drop6", "Dropout", "fc6", "fc6")
        + _layer("fc7", "InnerProduct", "fc6", "fc7", "inner_product_param { num_output: 3 bias_term: false }")
        + _layer("prob", "Softmax", "fc7", "prob"),
        ["Conv2D", "LRN", "MaxPooling2D", "Conv2D", "Flatten", "Dense", "Dropout", "Dense", "Softmax"],
    ),
    "resnet": (
        RESIDUAL + _layer("pool", "Pooling", "r2", "pool", "pooling_param { pool: AVE global_pooling: true }")
        + _layer("fc", "InnerProduct", "pool", "fc", "inner_product_param { num_output: 3 }"),
        ["Conv2D", "BatchNormalization", "Add", "ReLU"] * 3 + ["GlobalAveragePooling2D", "Dense"],
    ),
    "mobilenet": (
        _conv("dw", "x", 4, "kernel_size: 3 pad: 1 stride: 2 group: 4 bias_term: false")
        + _layer("bn", "BatchNorm", "dw", "dw")
        + _conv("pw", "dw", 6, "kernel_size: 1")
        + _layer("prelu", "PReLU", "pw", "pw")
        + _layer("elu", "ELU", "pw", "elu", "elu_param { alpha: 0.3 }"),
        ["DepthwiseConv2D", "BatchNormalization", "Conv2D", "PReLU", "ELU"],
    ),
    "inception": (
        _conv("a", "x", 2, "kernel_size: 1")
        + _layer("ra", "ReLU", "a", "a")
        + _layer("p", "Pooling", "x", "p", "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }")
        + _conv("b", "p", 3, "kernel_size: 1")
        + _layer("cat", "Concat", "a b x", "cat")
        + _layer("max", "Pooling", "cat", "max", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }"),
        ["Conv2D", "AveragePooling2D", "Conv2D", "Concatenate", "MaxPooling2D"],
    ),
    "fully convolutional": (
        _conv("score", "x", 2, "kernel_size: 1")
        + _layer("up", "Deconvolution", "score", "up",
                 'convolution_param { num_output: 2 kernel_size: 4 stride: 2 weight_filler { type: "bilinear" } }')
        + _layer("crop", "Crop", "up x", "crop", "crop_param { axis: 2 offset: 1 }")
        + _layer("sig", "Sigmoid", "crop", "sig"),
        None,
    ),
    "other layers": (
        _layer("pow", "Power", "x", "pow", "power_param { scale: 0.5 shift: 1 }")
        + 'layer { name: "s" type: "Slice" bottom: "pow" top: "s1" top: "s2" slice_param { slice_point: 1 } }\n'
        + _layer("mvn", "MVN", "s2", "mvn")
        + _layer("tanh", "TanH", "mvn", "tanh")
        + _layer("red", "Reduction", "tanh", "red", "reduction_param { axis: 2 operation: MEAN }")
        + _layer("res", "Reshape", "s1", "res", "reshape_param { shape { dim: 0 dim: -1 } }"),
        None,
    ),
}  # fmt: skip


def _exact(tmp_path, name):
    path = tmp_path / "deploy.prototxt"
    path.write_text(INPUT + NETS[name][0])
    caffe = read_prediction_net(path)
    model = make_model(caffe.net, {})
    model.build()
    draw = np.random.default_rng(1)
    for key, weight in model.weights.items():
        values = draw.uniform(0.5, 1.5, np.shape(weight)) if "moving" in key else draw.normal(0, 0.3, np.shape(weight))
        weight[...] = values.astype(np.float32)
    return caffe, model


def _outputs(model, x):
    y = model.predict(x)
    return list(y.values()) if isinstance(y, dict) else [y]


@pytest.mark.parametrize("name", NETS)
def test_outputs_and_gradients_are_those_of_the_exact_net(name, tmp_path):
    caffe, exact = _exact(tmp_path, name)
    net, weights = native_net(caffe, {key: np.array(w) for key, w in exact.weights.items()})
    kinds = [type(node.layer).__name__ for node in net.nodes]
    assert NETS[name][1] is None or kinds == NETS[name][1]
    model = make_model(net, {})
    for key, weight in weights.items():
        model.variables.create(key, weight, own=True)
    model.build()
    x = np.random.default_rng(2).normal(size=(2, 4, 10, 9)).astype(np.float32)
    for ours, theirs in zip(_outputs(model, x), _outputs(exact, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_blocks_and_repeats_are_found(tmp_path):
    caffe, _ = _exact(tmp_path, "resnet")
    generated = generate_text(native_net(caffe)[0])
    assert generated.is_folded
    assert generated.text.count("Conv2D") == 1


def test_numbers_and_initializers_are_those_of_the_file(tmp_path):
    caffe, _ = _exact(tmp_path, "alexnet")
    text = generate_text(native_net(caffe)[0]).text
    assert "0.0001" in text
    assert "lecun_uniform" in text  # xavier
    assert "zeros" not in text  # the dense layers state no filler


def _write_weights(path, model, text):
    """A caffemodel with the weights of the exact net: written by the exporter, under the names of the file's layers."""
    message = upgrade_net(read_message(text, "NetParameter"))
    blobs = {layer["name"]: layer["blobs"] for layer in export_net(model.net, model.weights)["layer"]}
    for layer in message["layer"]:
        if blobs.get(layer["name"]):
            layer["blobs"] = blobs[layer["name"]]
    path.write_bytes(b"".join(bytes(piece) for piece in iter_encoded(message)))


def test_load_model_and_convert_with_weights(tmp_path):
    _, exact = _exact(tmp_path, "alexnet")
    deploy, weights = tmp_path / "deploy.prototxt", tmp_path / "net.caffemodel"
    _write_weights(weights, exact, INPUT + NETS["alexnet"][0])
    x = np.random.default_rng(2).normal(size=(3, 4, 10, 9)).astype(np.float32)
    np.testing.assert_array_equal(pt.load_model(deploy, weights=weights).predict(x), exact.predict(x))
    result = convert(str(deploy), str(tmp_path / "net.proto"), import_options={"weights": str(weights)})
    assert [path.rpartition("/")[2] for path in result.paths] == ["net.proto", "net.h5"]
    np.testing.assert_allclose(pt.load_model(tmp_path / "net.h5").predict(x), exact.predict(x), rtol=1e-5)
    text = (tmp_path / "net.proto").read_text()
    assert 'Conv2D(8, 5, 2, name: "conv1"' in text
    assert pt.load_model(tmp_path / "net.proto").net.nodes[0].name == "conv1"
    convert(str(tmp_path / "net.h5"), str(tmp_path / "again.prototxt"), to="caffe")
    again = pt.load_model(tmp_path / "again.prototxt", weights=tmp_path / "again.caffemodel")
    np.testing.assert_allclose(again.predict(x), exact.predict(x), rtol=1e-5)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    _, exact = _exact(tmp_path, "alexnet")
    text = INPUT + NETS["alexnet"][0]
    _write_weights(tmp_path / "net.caffemodel", exact, text)
    other = tmp_path / "other.prototxt"
    other.write_text(text.replace('name: "fc7"', 'name: "fc8"'))
    with pytest.raises(WeightsError, match="fc8"):
        pt.load_model(other, weights=tmp_path / "net.caffemodel")
    other.write_text(text.replace("num_output: 5", "num_output: 6"))
    with pytest.raises(WeightsError, match="fc6"):
        pt.load_model(other, weights=tmp_path / "net.caffemodel")
    (tmp_path / "no.npz").write_bytes(b"")
    np.savez(tmp_path / "no.npz", a=np.zeros(3))
    with pytest.raises(UsageError, match="no file of Caffe's weights"):
        convert(str(other), str(tmp_path / "net.proto"), import_options={"weights": str(tmp_path / "no.npz")})
