"""Weights of Caffe nets written as Caffe writes them, and loaded as it loads them."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.interop.net_weights import copy_weights
from prototorch.caffe.interop.snapshot import net_parameter, write_caffemodel
from prototorch.caffe.interop.translate import translate_net
from prototorch.caffe.interop.wire import encode
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_message, read_net_file
from prototorch.caffe.text.upgrade import upgrade_net
from prototorch.errors import UsageError, WeightsError
from tests.caffe.interop.protobuf_oracle import protobuf_message
from tests.caffe.interop.test_read_caffe_files import BINARY, HDF5, LENET, check_equal_but_for_times


def translated(text, phase="TRAIN", float_dtype="float32"):
    message = filter_net(upgrade_net(read_message(text, "NetParameter")), phase)
    return translate_net(message, phase, {}, float_dtype)


def arrays_of(net, seed=0):
    """Random weights of a net by name."""
    rng = np.random.default_rng(seed)
    dtypes = {name: spec.spec.dtype for name, spec in net.weights.items()}
    return {n: rng.standard_normal(s.spec.shape).astype(dtypes[n]) for n, s in net.weights.items()}


def written(net, weights, gradients=None):
    """The NetParameter that is written, as the ``protobuf`` package reads it."""
    message = protobuf_message("NetParameter")
    message.ParseFromString(encode(net_parameter(net, weights, gradients)))
    return message


@pytest.mark.parametrize(("source", "name"), [(BINARY, "net.caffemodel"), (HDF5, "net.caffemodel.h5")])
def test_files_of_caffe_are_written_again_byte_for_byte(tmp_path, source, name):
    message = filter_net(read_net_file(LENET / "lenet_train.prototxt"), "TRAIN")
    net = translate_net(message, "TRAIN", {"data": (8, 1, 28, 28), "label": (8,)})
    weights = {name: np.zeros(spec.spec.shape, np.float32) for name, spec in net.weights.items()}
    report = copy_weights(net, weights, pt.read_weights(source))
    assert len(report.loaded) == 8
    assert not report.missing
    assert not report.unexpected
    write_caffemodel(tmp_path / name, net, weights)
    check_equal_but_for_times((tmp_path / name).read_bytes(), Path(source).read_bytes())


SPLIT = """
name: "two heads"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "ip/a" type: "InnerProduct" bottom: "data" top: "a" inner_product_param { num_output: 4 } }
layer { name: "loss1" type: "SoftmaxWithLoss" bottom: "a" bottom: "label" top: "l1" loss_weight: 0.5 }
layer { name: "loss2" type: "SoftmaxWithLoss" bottom: "a" bottom: "label" top: "l2" }
"""


def test_what_caffe_adds_to_a_net_is_written():
    net = translated(SPLIT)
    weights = arrays_of(net)
    message = written(net, weights)
    assert [layer.name for layer in message.layer] == [
        "data", "label", "label_label_0_split", "ip/a", "a_ip/a_0_split", "loss1", "loss2",
    ]  # fmt: skip
    split = message.layer[4]
    assert (split.type, list(split.bottom)) == ("Split", ["a"])
    assert list(split.top) == ["a_ip/a_0_split_0", "a_ip/a_0_split_1"]
    assert list(message.layer[5].bottom) == ["a_ip/a_0_split_0", "label_label_0_split_0"]
    assert [list(message.layer[i].loss_weight) for i in (5, 6)] == [[0.5], [1.0]]
    assert {layer.phase for layer in message.layer} == {0}
    kernel = message.layer[3].blobs[0]
    assert list(kernel.shape.dim) == [4, 3]
    (name,) = net.params[0].weights
    np.testing.assert_array_equal(np.reshape(kernel.data, (4, 3)), weights[name].T)


def test_names_with_slashes_are_written_and_read(tmp_path):
    net = translated(SPLIT)
    weights = arrays_of(net)
    for name in ("net.caffemodel", "net.caffemodel.h5"):
        write_caffemodel(tmp_path / name, net, weights)
        again = {name: np.zeros_like(array) for name, array in weights.items()}
        report = copy_weights(net, again, pt.read_weights(tmp_path / name))
        assert not report.missing
        for key, array in weights.items():
            np.testing.assert_array_equal(again[key], array)
    with h5py.File(tmp_path / "net.caffemodel.h5") as file:
        assert sorted(file["data"]) == ["a_ip", "data", "ip", "label", "label_label_0_split", "loss1", "loss2"]


def test_names_that_hdf5_does_not_have_are_refused(tmp_path):
    net = translated(SPLIT.replace("ip/a", "ip//a"))
    with pytest.raises(UsageError, match=r"no name in HDF5.*write a \.caffemodel instead"):
        write_caffemodel(tmp_path / "net.caffemodel.h5", net, arrays_of(net))
    assert list(tmp_path.iterdir()) == []


SHARED = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "one" type: "InnerProduct" bottom: "data" top: "one" param { name: "w" } param { name: "b" }
        inner_product_param { num_output: 3 } }
layer { name: "two" type: "InnerProduct" bottom: "one" top: "two" param { name: "w" } param { name: "c" }
        inner_product_param { num_output: 3 } }
"""


def test_shared_blobs_and_gradients(tmp_path):
    net = translated(SHARED)
    weights, gradients = arrays_of(net, 1), arrays_of(net, 2)
    message = written(net, weights, gradients)
    one, two = message.layer[1].blobs, message.layer[2].blobs
    np.testing.assert_array_equal(one[0].data, two[0].data)
    np.testing.assert_array_equal(np.reshape(two[0].diff, (3, 3)), gradients["one/kernel"].T)
    write_caffemodel(tmp_path / "net.caffemodel.h5", net, weights, gradients)
    with h5py.File(tmp_path / "net.caffemodel.h5") as file:
        assert list(file["data/two"]) == ["1"]  # stored once, by its owner
        assert list(file["diff/two"]) == ["0", "1"]
        np.testing.assert_array_equal(file["diff/two/0"], gradients["one/kernel"].T)
    again = {name: np.zeros_like(array) for name, array in weights.items()}
    report = copy_weights(net, again, pt.read_weights(tmp_path / "net.caffemodel.h5"))
    assert not report.missing
    np.testing.assert_array_equal(again["one/kernel"], weights["one/kernel"])


def test_double_precision_is_kept(tmp_path):
    net = translated(SHARED, float_dtype="float64")
    weights = arrays_of(net)
    assert weights["one/kernel"].dtype == np.float64
    assert len(written(net, weights).layer[1].blobs[0].double_data) == 9
    for name in ("net.caffemodel", "net.caffemodel.h5"):
        write_caffemodel(tmp_path / name, net, weights)
        again = {name: np.zeros_like(array) for name, array in weights.items()}
        copy_weights(net, again, pt.read_weights(tmp_path / name))
        np.testing.assert_array_equal(again["two/bias"], weights["two/bias"])


ONE = """
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 2 dim: 3 }} }} }}
layer {{ name: "{name}" type: "InnerProduct" bottom: "data" top: "y"
        inner_product_param {{ num_output: {units}  bias_term: {bias} }} }}
"""


def saved(folder, ending="", name="ip", units=4, bias="true"):
    net = translated(ONE.format(name=name, units=units, bias=bias))
    path = folder / f"source.caffemodel{ending}"
    write_caffemodel(path, net, arrays_of(net))
    return pt.read_weights(path)


@pytest.mark.parametrize("ending", ["", ".h5"])
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"units": 5}, r"ip/0 has the shape \[5, 3\], the net expects \[4, 3\]"),
        ({"bias": "false"}, r"lack blobs for ip/bias"),
    ],
)
def test_layers_that_differ_are_refused(tmp_path, ending, source, reason):
    net = translated(ONE.format(name="ip", units=4, bias="true"))
    weights = arrays_of(net)
    before = {name: array.copy() for name, array in weights.items()}
    with pytest.raises(WeightsError, match=reason):
        copy_weights(net, weights, saved(tmp_path, ending, **source))
    for name, array in before.items():
        np.testing.assert_array_equal(weights[name], array)


@pytest.mark.parametrize("ending", ["", ".h5"])
def test_blobs_too_many_are_refused(tmp_path, ending):
    net = translated(ONE.format(name="ip", units=4, bias="false"))
    with pytest.raises(WeightsError, match="blobs that the net does not have: ip/1"):
        copy_weights(net, arrays_of(net), saved(tmp_path, ending))


def test_layers_of_other_names_are_left_out(tmp_path):
    net = translated(ONE.format(name="ip", units=4, bias="true"))
    weights = arrays_of(net)
    report = copy_weights(net, weights, saved(tmp_path, name="other"))
    assert report.missing == ("ip/kernel", "ip/bias")
    assert report.unexpected == ("other/0", "other/1")
