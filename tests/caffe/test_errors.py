"""Faulty files, and files that only look faulty, beside real Caffe's verdict; rules of the net as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError
from tests.caffe.golden import GOLDEN

VERDICTS = json.loads((GOLDEN / "errors.json").read_text())


@pytest.mark.parametrize("name", sorted(name for name, verdict in VERDICTS.items() if not verdict["builds"]))
def test_caffe_refuses_it(name: str) -> None:
    """Refused in one message that names the file, the line and the column."""
    path = GOLDEN / "errors" / f"{name}.prototxt"
    with pytest.raises(TextError) as caught:
        pt.caffe.Net(str(path), pt.caffe.TRAIN)
    first = str(caught.value).splitlines()[0]
    place, _, text = first.partition(": ")
    file, line, column = place.rsplit(":", 2)
    assert file.endswith(f"{name}.prototxt")
    assert int(line) >= 1
    assert int(column) >= 1
    assert len(text) > 15


@pytest.mark.parametrize("name", sorted(name for name, verdict in VERDICTS.items() if verdict["builds"]))
def test_caffe_builds_it(name: str) -> None:
    net = pt.caffe.Net(str(GOLDEN / "errors" / f"{name}.prototxt"), pt.caffe.TRAIN)
    assert {top: list(blob.shape) for top, blob in net.blobs.items()} == VERDICTS[name]["tops"]
    net.forward()


def make_net(tmp_path: Path, body: str, phase: int = 1, shape: str = "dim: 2 dim: 3") -> pt.caffe.Net:
    path = tmp_path / "net.prototxt"
    path.write_text(f'layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ {shape} }} }} }}\n{body}')
    return pt.caffe.Net(str(path), phase)


def layer(name: str, type_name: str, bottom: str, top: str, rest: str = "") -> str:
    return f'layer {{ name: "{name}" type: "{type_name}" bottom: "{bottom}" top: "{top}" {rest} }}\n'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (layer("a", "RelU", "x", "y"), "no layer type 'RelU'. Did you mean 'ReLU'"),
        (layer("a", "ReLU", "data", "y"), "reads the blob 'data', which no layer before it makes"),
        (layer("a", "ReLU", "x", "y") + layer("b", "ReLU", "x", "y"), "'y' is made by several layers"),
        (layer("a", "Power", "x", "y") + layer("b", "ReLU", "x", "x"), "several layers"),
        (layer("a", "ReLU", "x", "y", "propagate_down: true propagate_down: false"), "propagate_down"),
        (layer("a", "ReLU", "x", "y", "loss_weight: 1 loss_weight: 2"), "2 loss_weight fields and 1 tops"),
        (layer("a", "ReLU", "x", "y", "param { lr_mult: 1 }"), "1 param fields, but 0 parameter blobs"),
        (layer("f", "Filter", "x", "y"), "at least 2"),
        ('layer { name: "f" type: "Filter" bottom: "x" bottom: "x" top: "y" }', "selector"),
        (layer("s", "Silence", "x", "y"), "1 tops, but a Silence layer has 0"),
        (layer("p", "Python", "x", "y", 'python_param { module: "m" layer: "L" }'), "allow_python"),
        ('layer { name: "h" type: "HDF5Output" bottom: "x" bottom: "x" }', "file_name"),
        ('layer { name: "d" type: "DummyData" top: "d" }', "0 shape fields"),
        (
            'layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 1 } num: 1 channels: 1 '
            "height: 1 width: 1 } }",
            "shape and num",
        ),
        (
            'layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 1 } data_filler { } '
            "data_filler { } } }",
            "2 data_filler",
        ),
    ],
)
def test_rules_of_the_net(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        make_net(tmp_path, body)


IP = 'inner_product_param { num_output: %d weight_filler { type: "xavier" } bias_term: false }'


def test_shared_parameters(tmp_path: Path) -> None:
    shared = 'param { name: "w" lr_mult: 2 }'
    net = make_net(
        tmp_path,
        layer("a", "InnerProduct", "x", "h", f"{shared} {IP % 3}")
        + layer("b", "InnerProduct", "h", "y", f'param {{ name: "w" }} loss_weight: 1 {IP % 3}'),
        pt.caffe.TRAIN,
    )
    a, b = net.params["a"][0], net.params["b"][0]
    np.testing.assert_array_equal(a.data, b.data)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    w = a.data.copy()
    np.testing.assert_allclose(_run(net, x), x @ w.T @ w.T, rtol=1e-5, atol=1e-6)
    net.backward()
    g = np.ones((2, 3))
    expected = g.T @ (x @ w.T) + (g @ w).T @ x
    np.testing.assert_allclose(a.diff, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(a.diff, b.diff)
    b.data[...] = 0.5
    np.testing.assert_array_equal(a.data, np.full((3, 3), 0.5))
    owner, sharer = net.caffe_net.params
    assert (owner.lr_mult, sharer.owner) == (2.0, ("a", 0))


def _run(net: pt.caffe.Net, x: np.ndarray) -> np.ndarray:
    return net.forward(x=x)["y"]


@pytest.mark.parametrize("transpose", ["", "transpose: true"])
def test_permissive_sharing_reshapes(tmp_path: Path, transpose: str) -> None:
    """The elements of one blob are read in another shape, in the order in which Caffe has them."""
    net = make_net(
        tmp_path,
        layer("a", "InnerProduct", "x", "h", f'param {{ name: "w" }} {IP % 4}')
        + layer("flat", "Reshape", "h", "r", "reshape_param { shape { dim: 4 dim: 2 } }")
        + layer(
            "b",
            "InnerProduct",
            "r",
            "y",
            f'param {{ name: "w" share_mode: PERMISSIVE }} {IP.replace("bias", transpose + " bias", 1) % 6}',
        ),
    )
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    w = net.params["a"][0].data
    assert net.params["b"][0].shape == ((2, 6) if transpose else (6, 2))
    second = w.reshape(2, 6) if transpose else w.reshape(6, 2).T
    np.testing.assert_allclose(_run(net, x), (x @ w.T).reshape(4, 2) @ second, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(net.params["b"][0].data, w.reshape(net.params["b"][0].shape))


def test_splits_have_caffes_names(tmp_path: Path) -> None:
    net = make_net(tmp_path, layer("a", "Power", "x", "y") + layer("b", "Power", "x", "z", "loss_weight: 1"))
    assert [one.name for one in net.layers] == ["x", "x_x_0_split", "a", "b"]
    assert list(net.blobs) == ["x", "x_x_0_split_0", "x_x_0_split_1", "y", "z"]


def test_a_layer_may_have_a_phase_of_its_own(tmp_path: Path) -> None:
    body = layer("a", "Dropout", "x", "y") + layer("b", "Dropout", "x", "z", "phase: TEST")
    net = make_net(tmp_path, body, pt.caffe.TRAIN, "dim: 20 dim: 30")
    out = net.forward(x=np.ones((20, 30), np.float32))
    assert set(np.unique(out["y"])) == {0.0, 2.0}
    np.testing.assert_array_equal(out["z"], 1)


def test_the_backward_pass_has_the_masks_of_the_forward_pass(tmp_path: Path) -> None:
    body = "force_backward: true " + layer("a", "Dropout", "x", "y", "loss_weight: 1")
    net = make_net(tmp_path, body, pt.caffe.TRAIN, "dim: 20 dim: 30")
    masks = []
    for _ in range(2):
        out = net.forward(x=np.ones((20, 30), np.float32))["y"].copy()
        np.testing.assert_array_equal(net.backward()["x"], out)
        masks.append(out)
    assert (masks[0] != masks[1]).any()
