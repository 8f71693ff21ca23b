"""`load_model` of Caffe's nets: the net that predicts, without data layers, losses and accuracies."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.interop.net_text import read_prediction_net
from prototorch.caffe.text.detect_caffe import find_caffe_kind
from prototorch.errors import FileError, TextError, UsageError

DATA = (
    'layer { name: "d" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "no.txt" batch_size: 2 } }\n'
)
RELU = 'layer { name: "r" type: "ReLU" bottom: "data" top: "y" }\n'
LOSS = 'layer { name: "l" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }\n'
ACCURACY = 'layer { name: "a" type: "Accuracy" bottom: "y" bottom: "label" top: "accuracy" include { phase: TEST } }\n'


@pytest.fixture
def write(tmp_path):
    def write_net(text, name="net.prototxt"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write_net


def test_a_training_net(write):
    model = pt.load_model(write(DATA + RELU + LOSS + ACCURACY), input_shapes={"data": (3, 4)})
    assert [i.name for i in model.net.inputs] == ["data"]
    assert [n.name for n in model.net.nodes] == ["r"]
    x = np.array([[[-1, 2, 3, 4]] * 3], np.float32)
    np.testing.assert_array_equal(model.predict(x), np.maximum(x, 0))


def test_sizes_by_setting(write):
    model = pt.load_model(write(DATA + RELU), overrides=["data.shape=[5]"])
    assert model.net.inputs[0].shape == (5,)


def test_sizes_told_by_the_files(write, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"], file["label"] = np.zeros((4, 3, 2), np.float32), np.zeros((4, 1), np.float32)
    (tmp_path / "list.txt").write_text("a.h5\n")
    assert pt.load_model(write((DATA + RELU).replace("no.txt", "list.txt"))).net.inputs[0].shape == (3, 2)


def test_sizes_that_nothing_tells_are_asked_for(write):
    with pytest.raises(TextError, match=r"net.prototxt:1:1: The sizes of the blob 'data' .*--set data.shape=\["):
        pt.load_model(write(DATA + RELU))


def test_outputs_are_those_of_the_whole_net_and_what_losses_read(write):
    branch = 'layer { name: "b" type: "ReLU" bottom: "data" top: "z" }\n'
    label = 'layer { name: "s" type: "ReLU" bottom: "label" top: "scaled" }\n'
    net = read_prediction_net(write(DATA + RELU + branch + label + LOSS.replace('"label"', '"scaled"')), {"data": (2,)})
    assert net.outputs == ("z", "y")
    assert list(net.inputs) == ["data"]
    in_place = RELU.replace('"y"', '"data"') + LOSS.replace('"y"', '"data"')
    assert read_prediction_net(write(DATA + in_place), {"data": (2,)}).outputs == ("data",)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("base_lr: 0.1", FileError, "is a solver of Caffe, not a net"),
        (DATA, TextError, "no layers that predict"),
        (DATA + "layer { name: 'x' type: 'Relu' bottom: 'data' top: 'y' }", TextError, "Did you mean 'ReLU'"),
        (DATA + "layer { nam: 'x' }", TextError, "Did you mean 'name'"),
    ],
)
def test_mistakes(write, text, error, message):
    with pytest.raises(error, match=message):
        pt.load_model(write(text), input_shapes={"data": (2,)})


def test_wrong_arguments(write):
    path = write(DATA + RELU)
    with pytest.raises(UsageError, match="no param 'classes'"):
        pt.load_model(path, classes=3)
    with pytest.raises(UsageError, match="no input 'dat'"):
        pt.load_model(path, input_shapes={"dat": (3,)})


def test_a_text_with_mistakes_is_recognized():
    assert find_caffe_kind('layer { name: "a" type: }\nlayer { name: "b" }') == "net"
    assert find_caffe_kind("Dense { units: 3 }") is None
