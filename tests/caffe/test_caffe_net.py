"""``pt.caffe.Net``: pycaffe's methods on small nets, beside NumPy."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.devices import backend_for
from prototorch.errors import BackendError, ResourceError, ShapeError, UsageError, WeightsError

MLP = """
name: "mlp"
force_backward: true
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "out"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
"""


def write(tmp_path: Path, text: str, name: str = "net.prototxt") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


@pytest.fixture
def net(tmp_path: Path) -> pt.caffe.Net:
    pt.caffe.set_random_seed(3)
    return pt.caffe.Net(write(tmp_path, MLP), pt.caffe.TEST)


def mlp(net: pt.caffe.Net, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w1, b1, w2, b2 = (p.data.astype(np.float64) for name in ("ip1", "ip2") for p in net.params[name])
    hidden = np.maximum(x @ w1.T + b1, 0)
    return hidden, hidden @ w2.T + b2


def test_structure(net: pt.caffe.Net) -> None:
    assert list(net.blobs) == ["data", "ip1", "out"]
    assert list(net.params) == ["ip1", "ip2"]
    assert [p.shape for p in net.params["ip1"]] == [(5, 3), (5,)]
    assert net.inputs == ["data"]
    assert net.outputs == ["out"]
    assert net.top_names["relu1"] == ["ip1"]
    assert net.bottom_names["ip2"] == ["ip1"]
    assert [layer.type for layer in net.layers] == ["Input", "InnerProduct", "ReLU", "InnerProduct"]
    assert net.layer_dict["ip1"].blobs[0].shape == (5, 3)
    assert net.blobs["data"].num == 4
    assert net.blobs["data"].height == 1
    assert net.blobs["data"].count == 12


def test_structure_by_positions(net: pt.caffe.Net) -> None:
    assert list(net._layer_names) == ["data", "ip1", "relu1", "ip2"]
    assert net._blob_names == ["data", "ip1", "out"]
    assert [blob.shape for blob in net._blobs] == [(4, 3), (4, 5), (4, 2)]
    assert (net._inputs, net._outputs) == ([0], [2])
    assert [(net._bottom_ids(i), net._top_ids(i)) for i in (0, 2, 3)] == [([], [0]), ([1], [1]), ([1], [2])]
    assert net._blob_loss_weights == [0, 0, 0]
    net.blobs["data"].data[...] = 1
    assert net._forward(0, 3) == 0
    net.blobs["out"].diff[...] = 1
    net._backward(3, 1)
    hidden = net.blobs["ip1"].data
    np.testing.assert_allclose(net.params["ip2"][0].diff, [hidden.sum(axis=0)] * 2, rtol=1e-5)
    assert net.blobs["data"].diff.any()


def test_a_file_of_a_net_without_parameters(tmp_path: Path) -> None:
    relu = 'layer { name: "relu1" type: "ReLU" bottom: "data" top: "r" }'
    path = write(tmp_path, MLP[: MLP.index('layer { name: "ip1"')] + relu, "relu.prototxt")
    pt.caffe.Net(path, pt.caffe.TEST).save(tmp_path / "relu.caffemodel")
    pt.caffe.Net(path, str(tmp_path / "relu.caffemodel"), pt.caffe.TEST).forward()
    assert pt.load_model(path, weights=str(tmp_path / "relu.caffemodel")).name


def test_names_of_the_package() -> None:
    assert pt.caffe.__version__ == "1.0.0"
    assert pt.caffe.proto.caffe_pb2.BlobProto().SerializeToString() == b""


def test_forward_and_backward(net: pt.caffe.Net) -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    out = net.forward(data=x, blobs=["ip1"])
    hidden, expected = mlp(net, x)
    np.testing.assert_allclose(out["out"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["ip1"], hidden, rtol=1e-5, atol=1e-6)
    diffs = net.backward(out=g, diffs=["ip1"])
    d_hidden = g @ net.params["ip2"][0].data
    d_first = d_hidden * (hidden > 0)
    np.testing.assert_allclose(diffs["data"], d_first @ net.params["ip1"][0].data, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net.params["ip1"][0].diff, d_first.T @ x, rtol=1e-4, atol=1e-6)
    net.backward(out=g)
    np.testing.assert_allclose(net.params["ip1"][0].diff, 2 * d_first.T @ x, rtol=1e-4, atol=1e-6)
    net.clear_param_diffs()
    assert not net.params["ip1"][0].diff.any()


def test_arrays_are_the_nets_own(net: pt.caffe.Net) -> None:
    data, out, weight = net.blobs["data"].data, net.blobs["out"].data, net.params["ip1"][0].data
    data[...] = 1
    weight[...] = 0.5
    net.forward()
    np.testing.assert_allclose(out, mlp(net, np.ones((4, 3)))[1], rtol=1e-5)
    weight[0] = 2
    net.forward(start="ip1", end="relu1")
    net.forward(start="ip2")
    np.testing.assert_allclose(out, mlp(net, np.ones((4, 3)))[1], rtol=1e-5)
    assert net.blobs["out"].data is out


def test_parts_of_the_net(net: pt.caffe.Net) -> None:
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    whole = {name: array.copy() for name, array in net.forward(data=x, blobs=["ip1"]).items()}
    net.backward(out=np.ones((4, 2), np.float32))
    gradient, weights = net.blobs["data"].diff.copy(), net.params["ip1"][0].diff.copy()
    net.clear_param_diffs()
    assert list(net.forward(end="relu1")) == ["ip1"]
    np.testing.assert_array_equal(net.forward(start="ip2")["out"], whole["out"])
    assert list(net.backward(start="ip2", end="ip2")) == ["ip1"]
    net.backward(start="relu1", end="ip1")
    np.testing.assert_allclose(net.blobs["data"].diff, gradient, rtol=1e-5)
    np.testing.assert_allclose(net.params["ip1"][0].diff, weights, rtol=1e-5)


def test_a_gradient_from_the_middle(net: pt.caffe.Net) -> None:
    """The end of a forward pass is where a backward pass begins: the diff of its blob is the caller's."""
    x = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    net.blobs["data"].data[...] = x
    net.forward(end="relu1")
    net.blobs["ip1"].diff[...] = net.blobs["ip1"].data
    hidden = net.blobs["ip1"].data.copy()
    net.backward(start="relu1")
    np.testing.assert_allclose(net.blobs["data"].diff, hidden @ net.params["ip1"][0].data, rtol=1e-4, atol=1e-6)


def test_reshape(net: pt.caffe.Net) -> None:
    net.blobs["data"].reshape(2, 3)
    net.reshape()
    assert net.blobs["out"].shape == (2, 2)
    x = np.ones((7, 3), np.float32)
    net.blobs["data"].reshape(7, 3)
    np.testing.assert_allclose(net.forward(data=x)["out"], mlp(net, x)[1], rtol=1e-5)
    net.blobs["data"].reshape(4, 4)
    with pytest.raises(ShapeError, match=r"ip1.*\[5, 3\].*\[5, 4\]"):
        net.forward()


def test_forward_all(net: pt.caffe.Net) -> None:
    x = np.random.default_rng(3).normal(size=(10, 3)).astype(np.float32)
    np.testing.assert_allclose(net.forward_all(data=x)["out"], mlp(net, x)[1], rtol=1e-4, atol=1e-6)
    g = np.ones((10, 2), np.float32)
    blobs, diffs = net.forward_backward_all(data=x, out=g, blobs=["ip1"])
    assert blobs["ip1"].shape == (10, 5)
    assert diffs["data"].shape == (10, 3)


def test_callbacks(net: pt.caffe.Net) -> None:
    calls: list[tuple[str, int]] = []
    net.before_forward(lambda i: calls.append(("before", i)))
    net.after_backward(lambda i: calls.append(("after", i)))
    net.forward()
    net.backward()
    assert calls == [("before", i) for i in range(4)] + [("after", i) for i in (3, 2, 1, 0)]


def test_weight_files(net: pt.caffe.Net, tmp_path: Path) -> None:
    binary, hdf5 = tmp_path / "a.caffemodel", tmp_path / "a.caffemodel.h5"
    net.save(binary)
    net.save_hdf5(hdf5)
    with h5py.File(hdf5) as file:
        np.testing.assert_array_equal(file["data/ip1/0"][...], net.params["ip1"][0].data)
    text = write(tmp_path, MLP)
    for other in (
        pt.caffe.Net(text, str(binary), pt.caffe.TEST),
        pt.caffe.Net(text, pt.caffe.TEST, weights=str(hdf5)),
        pt.caffe.Net(text, phase=pt.caffe.TRAIN, weights=binary),
    ):
        np.testing.assert_array_equal(other.params["ip2"][0].data, net.params["ip2"][0].data)
    other = pt.caffe.Net(text, "TEST")
    other.load_hdf5(hdf5)
    np.testing.assert_array_equal(other.params["ip1"][0].data, net.params["ip1"][0].data)


def test_share_with(net: pt.caffe.Net, tmp_path: Path) -> None:
    other = pt.caffe.Net(write(tmp_path, MLP), pt.caffe.TEST)
    other.forward()
    other.share_with(net)
    net.params["ip1"][0].data[...] = 0.25
    np.testing.assert_array_equal(other.params["ip1"][0].data, net.params["ip1"][0].data)
    x = np.ones((4, 3), np.float32)
    np.testing.assert_allclose(other.forward(data=x)["out"], mlp(net, x)[1], rtol=1e-5)
    wide = pt.caffe.Net(write(tmp_path, MLP.replace("num_output: 5", "num_output: 6"), "b.prototxt"), "TEST")
    with pytest.raises(WeightsError, match="ip1"):
        wide.share_with(net)


def test_levels_and_stages(tmp_path: Path) -> None:
    text = MLP + 'layer { name: "p" type: "Power" bottom: "out" top: "p" include { stage: "deploy" min_level: 1 } }'
    path = write(tmp_path, text)
    assert pt.caffe.Net(path, pt.caffe.TEST).outputs == ["out"]
    assert pt.caffe.Net(path, pt.caffe.TEST, stages=["deploy"]).outputs == ["out"]
    assert pt.caffe.Net(path, pt.caffe.TEST, 1, ["deploy"]).outputs == ["p"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: net.forward(dat=0), "inputs are data"),
        (lambda net: net.forward(data=np.zeros((3, 3))), r"expected an array of shape \[4, 3\]"),
        (lambda net: net.forward(end="ip3"), "no layer 'ip3'. Did you mean 'ip2'"),
        (lambda net: net.forward(blobs=["ip3"]), "no blob 'ip3'"),
        (lambda net: net.params["ip1"][0].reshape(2), "fixed shape"),
        (lambda net: net.set_input_arrays(np.zeros(1), np.zeros(1)), "MemoryData"),
        (lambda net: pt.caffe.Net("net.prototxt", 7), "TRAIN"),
    ],
)
def test_mistakes(net: pt.caffe.Net, call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(net)  # type: ignore[operator]


def test_seeds(tmp_path: Path) -> None:
    path = write(tmp_path, MLP)
    weights = []
    for _ in range(2):
        pt.caffe.set_random_seed(11)
        weights.append([pt.caffe.Net(path, "TEST").params["ip1"][0].data.copy() for _ in range(2)])
    np.testing.assert_array_equal(weights[0], weights[1])
    assert (weights[0][0] != weights[0][1]).any()


def test_types() -> None:
    types = pt.caffe.layer_type_list()
    assert {"Convolution", "Python", "Filter"} <= set(types)
    assert not pt.caffe.has_nccl()


def test_timer() -> None:
    timer = pt.caffe.Timer()
    assert timer.ms == 0
    timer.start()
    timer.stop()
    assert 0 <= timer.ms < 1000


def test_float64_is_the_cpus(tmp_path: Path) -> None:
    net = pt.caffe.Net(write(tmp_path, MLP), "TEST", precision="float64")
    assert {net.blobs["out"].data.dtype, net.params["ip1"][0].data.dtype} == {np.dtype("float64")}
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(net.forward(data=x)["out"], mlp(net, x)[1], rtol=1e-12)
    with pytest.raises(BackendError, match="float64"):
        backend_for("cuda", precision="float64")
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    with pytest.raises(UsageError, match="float64"):
        model.compile(optimizer="sgd", loss="mse", precision="float64")


def test_weights_that_do_not_fit_in_memory(tmp_path: Path) -> None:
    text = MLP.replace("num_output: 5", "num_output: 200000000").replace("dim: 4 dim: 3", "dim: 4 dim: 100000")
    with pytest.raises(ResourceError, match="mlp"):
        pt.caffe.Net(write(tmp_path, text), "TEST")


def test_a_pass_that_does_not_fit_in_memory(tmp_path: Path) -> None:
    text = """name: "far"
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
    layer { name: "l" type: "Convolution" bottom: "data" top: "o"
      convolution_param { num_output: 1 kernel_size: 3 pad: 300000 dilation: 300000 } }"""
    net = pt.caffe.Net(write(tmp_path, text), "TEST")
    with pytest.raises(ResourceError, match=r"the forward pass of 'far' needs .* are free. The largest layers: l \("):
        net.forward()


def test_dummy_data_that_do_not_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """layer { name: "d" type: "DummyData" top: "d" top: "e"
      dummy_data_param { shape { dim: 2000000 dim: 1000 } shape { dim: 2 } } }"""
    monkeypatch.setattr("prototorch.engine.backends.host_memory.free_bytes", lambda: 2**30)
    with pytest.raises(ResourceError, match=r"layer 'd' \(DummyData\): its tops need 7.5 GiB .* 1.0 GiB are free"):
        pt.caffe.Net(write(tmp_path, text), "TRAIN")
