"""Sizes of inputs that no blob can have: refused where the net is built, with the place of the size."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError, UsageError

RELU = 'layer { name: "r" type: "ReLU" bottom: "data" top: "y" }\n'
FORMS = {
    "Input": 'layer {{ name: "d" type: "Input" top: "data" input_param {{ shape {{ {} }} }} }}\n',
    "DummyData": 'layer {{ name: "d" type: "DummyData" top: "data" dummy_data_param {{ shape {{ {} }} }} }}\n',
    "Parameter": 'layer {{ name: "d" type: "Parameter" top: "data" parameter_param {{ shape {{ {} }} }} }}\n',
    "input_shape": 'input: "data" input_shape {{ {} }}\n',
}


@pytest.fixture
def write(tmp_path):
    def write_net(form, sizes):
        path = tmp_path / "net.prototxt"
        path.write_text(FORMS[form].format("\n".join(f"dim: {n}" for n in sizes)) + RELU)
        return str(path)

    return write_net


def _open_net(path):
    return pt.caffe.Net(path, pt.caffe.TEST)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("open_file", [_open_net, pt.load_model])
def test_a_negative_size_is_refused_at_its_place(write, form, open_file):
    with pytest.raises(TextError, match=r"net.prototxt:2:6: layer .* at least 0, not -3, in the shape \[2, -3\]"):
        open_file(write(form, (2, -3)))


def test_a_negative_input_dim(tmp_path):
    (tmp_path / "net.prototxt").write_text('input: "data"\ninput_dim: [1, 2,\n-1, 4]\n' + RELU)
    with pytest.raises(TextError, match=r"net.prototxt:3:1: .* not -1"):
        _open_net(str(tmp_path / "net.prototxt"))


def test_more_elements_than_a_blob_may_have(write):
    for form in ("Input", "DummyData"):
        with pytest.raises(TextError, match=r"net.prototxt.*has more than 2147483647 elements"):
            _open_net(write(form, (65536, 65536)))


def test_a_blob_without_elements(write):
    net = _open_net(write("Input", (0, 5)))
    assert net.forward()["y"].shape == (0, 5)
    net = _open_net(write("Input", (2, 0)))
    assert net.forward()["y"].shape == (2, 0)
    with pytest.raises(TextError, match=r"net.prototxt:1:1: .*'data' has the shape \[2, 0\]"):
        pt.load_model(write("Input", (2, 0)))
    assert pt.load_model(write("Input", (0, 5))).predict(np.ones((3, 5), np.float32)).shape == (3, 5)


@pytest.mark.parametrize("shape", [(-3,), (0,), (2.5,), ("a",)])
def test_shapes_that_a_caller_gives(write, shape):
    with pytest.raises(UsageError, match="integers of at least 1"):
        pt.load_model(write("Input", (2, 3)), input_shapes={"data": shape})


def test_sizes_of_a_setting_and_of_reshape(write):
    path = write("Input", (2, 3))
    with pytest.raises(UsageError, match="integers of at least 1"):
        pt.load_model(path, overrides=["data.shape=[-3]"])
    with pytest.raises(UsageError, match="at least 0 elements"):
        _open_net(path).blobs["data"].reshape(-2, 3)
