"""Layers that run between the plans of a net: Python, Filter, HDF5Output, DummyData; Parameter and Silence."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError, UsageError, WeightsError

INPUT = 'layer {{ name: "{0}" type: "Input" top: "{0}" input_param {{ shape {{ {1} }} }} }}\n'
X = INPUT.format("x", "dim: 4 dim: 3")
PYTHON = 'layer { name: "p" type: "Python" bottom: "h" top: "y" python_param { %s } %s }\n'

MODULE = '''
import numpy as np
from prototorch import caffe


class Affine(caffe.Layer):
    """A factor from param_str, and a bias that is a parameter."""

    def setup(self, bottom, top):
        self.factor = float(self.param_str)
        self.blobs.add_blob(bottom[0].shape[1])

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data * self.factor + self.blobs[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += top[0].diff.sum(axis=0)
        if propagate_down[0]:
            bottom[0].diff[...] = top[0].diff * self.factor


class Rows(caffe.Layer):
    """The first rows; how many is decided anew for each forward pass."""

    count = 2

    def setup(self, bottom, top):
        if len(bottom) != 1:
            raise Exception("one bottom")

    def reshape(self, bottom, top):
        top[0].reshape(self.count, bottom[0].shape[1])

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data[:self.count]

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = 0
        bottom[0].diff[:self.count] = top[0].diff


NOTHING = 3
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "caffe_test_layers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "caffe_test_layers", raising=False)
    return "caffe_test_layers"


def make_net(tmp_path: Path, text: str, phase: int = 1, **options: object) -> pt.caffe.Net:
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    return pt.caffe.Net(str(path), phase, **options)  # type: ignore[arg-type]


def power(bottom: str, top: str, scale: float, rest: str = "") -> str:
    return (
        f'layer {{ name: "{top}" type: "Power" bottom: "{bottom}" top: "{top}" power_param {{ scale: {scale} }} '
        f"{rest} }}\n"
    )


def test_python_layer(tmp_path: Path, module: str) -> None:
    layer = PYTHON % (f'module: "{module}" layer: "Affine" param_str: "3"', "")
    net = make_net(
        tmp_path, "force_backward: true\n" + X + power("x", "h", 2) + layer + power("y", "z", 5), allow_python=True
    )
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    net.params["p"][0].data[...] = [1, 2, 3]
    np.testing.assert_allclose(net.forward(x=x)["z"], (x * 6 + [1, 2, 3]) * 5, rtol=1e-5)
    np.testing.assert_allclose(net.backward(z=np.ones((4, 3)))["x"], np.full((4, 3), 30), rtol=1e-6)
    np.testing.assert_allclose(net.params["p"][0].diff, np.full(3, 20), rtol=1e-6)
    assert net.layer_dict["p"].type == "Python"
    assert net.layer_dict["p"].param_str == "3"
    net.clear_param_diffs()
    assert not net.params["p"][0].diff.any()


@pytest.mark.parametrize("name", ["w.caffemodel", "w.caffemodel.h5"])
def test_files_hold_the_blobs_of_python_layers(tmp_path: Path, module: str, name: str) -> None:
    layer = PYTHON % (f'module: "{module}" layer: "Affine" param_str: "3"', "")
    dense = 'layer { name: "h" type: "InnerProduct" bottom: "x" top: "h" inner_product_param { num_output: 3 } }\n'
    net = make_net(tmp_path, X + dense + layer, allow_python=True)
    net.params["p"][0].data[...] = [7, 8, 9]
    net.params["h"][0].data[...] = 5
    net.save(tmp_path / name)
    other = make_net(tmp_path, X + dense + layer, allow_python=True, weights=tmp_path / name)
    np.testing.assert_array_equal(other.params["p"][0].data, [7, 8, 9])
    np.testing.assert_array_equal(other.params["h"][0].data, 5)
    wider = make_net(tmp_path, X.replace("dim: 3", "dim: 2") + dense.replace("3", "2") + layer, allow_python=True)
    with pytest.raises(WeightsError, match=r"p/0 has the shape \[3\], the net expects \[2\]"):
        wider.copy_from(tmp_path / name)


def test_solvers_refuse_the_blobs_of_python_layers(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = 'layer { name: "l" type: "EuclideanLoss" bottom: "y" bottom: "h" top: "l" }'
    dense = 'layer { name: "h" type: "InnerProduct" bottom: "x" top: "h" inner_product_param { num_output: 3 } }\n'
    layer = PYTHON % (f'module: "{module}" layer: "Affine" param_str: "3"', "")
    (tmp_path / "net.prototxt").write_text(X + dense + layer + loss)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(f'net: "{tmp_path}/net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 1')
    monkeypatch.setattr("prototorch.caffe.settings.SETTINGS.allows_python", True)
    with pytest.raises(UsageError, match=r"'p' \(Python\) has 1 parameter blobs .* do not train"):
        pt.caffe.SGDSolver(str(solver)).step(1)


def test_a_python_layer_changes_shapes(tmp_path: Path, module: str) -> None:
    layer = PYTHON % (f'module: "{module}" layer: "Rows"', "")
    net = make_net(tmp_path, X + power("x", "h", 2) + layer + power("y", "z", 5), allow_python=True)
    assert net.blobs["z"].shape == (2, 3)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(net.forward(x=x)["z"], x[:2] * 10, rtol=1e-5)
    net.layer_dict["p"].count = 3  # type: ignore[attr-defined]
    np.testing.assert_allclose(net.forward(x=x)["z"], x[:3] * 10, rtol=1e-5)
    net.layer_dict["p"].count = 5  # type: ignore[attr-defined]
    net.blobs["x"].reshape(6, 3)
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.testing.assert_allclose(net.forward(x=x)["z"], x[:5] * 10, rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('module: "{}" layer: "Affin"', "has no class 'Affin'"),
        ('module: "{}" layer: "NOTHING"', "no subclass of prototorch.caffe.Layer"),
        ('module: "no_such_module_x" layer: "A"', "cannot be imported"),
        ('layer: "A"', "needs the field module"),
    ],
)
def test_mistakes_of_python_layers(tmp_path: Path, module: str, fields: str, message: str) -> None:
    text = X + power("x", "h", 2) + PYTHON % (fields.replace("{}", module), "")
    with pytest.raises(TextError, match=message):
        make_net(tmp_path, text, allow_python=True)


def test_python_layers_are_refused_unless_allowed(tmp_path: Path, module: str) -> None:
    text = X + power("x", "h", 2) + PYTHON % (f'module: "{module}" layer: "Affine" param_str: "3"', "")
    with pytest.raises(TextError, match="allow_python"):
        make_net(tmp_path, text)
    assert module not in sys.modules
    pt.caffe.allow_python()
    try:
        assert make_net(tmp_path, text).outputs == ["y"]
    finally:
        pt.caffe.allow_python(False)


def test_a_module_beside_the_net_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "beside_the_net.py").write_text("raise SystemExit")
    text = X + power("x", "h", 2) + PYTHON % ('module: "beside_the_net" layer: "A"', "")
    with pytest.raises(TextError, match="cannot be imported"):
        make_net(tmp_path, text, allow_python=True)


FILTER = (
    "force_backward: true\n"
    + X
    + INPUT.format("keep", "dim: 4")
    + power("x", "h", 2)
    + 'layer { name: "f" type: "Filter" bottom: "h" bottom: "keep" top: "g" }\n'
    + power("g", "y", 3, "loss_weight: 1")
)


@pytest.mark.parametrize("keep", [[1, 0, 0, 2], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
def test_filter(tmp_path: Path, keep: list[int]) -> None:
    net = make_net(tmp_path, FILTER)
    assert net.blobs["y"].shape == (4, 3)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    chosen = np.array(keep) != 0
    for _ in range(2):
        out = net.forward(x=x, keep=np.array(keep, np.float32))
        np.testing.assert_allclose(out["y"], x[chosen] * 6, rtol=1e-6)
        gradient = net.backward()["x"]
        np.testing.assert_allclose(gradient, np.where(chosen[:, None], 6.0, 0.0) * np.ones((4, 3)), rtol=1e-6)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    net.blobs["x"].reshape(2, 3)
    net.blobs["keep"].reshape(2)
    np.testing.assert_allclose(net.forward(x=x, keep=np.array([0, 1], np.float32))["y"], x[1:] * 6, rtol=1e-6)


OUTPUT = 'layer { name: "o" type: "HDF5Output" bottom: "x" bottom: "h" hdf5_output_param { file_name: "%s" } }\n'


def test_hdf5_output(tmp_path: Path) -> None:
    net = make_net(tmp_path, X + power("x", "h", 2) + OUTPUT % "out/features.h5", run_dir=tmp_path / "run")
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    net.forward(x=x)
    with h5py.File(tmp_path / "run" / "out" / "features.h5") as file:
        np.testing.assert_array_equal(file["data"][...], x.reshape(4, 3, 1, 1))
        np.testing.assert_allclose(file["label"][...], 2 * x.reshape(4, 3, 1, 1))


@pytest.mark.parametrize("name", ["../features.h5", "/elsewhere/features.h5"])
def test_hdf5_output_writes_below_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="outside of the run folder"):
        make_net(tmp_path, X + power("x", "h", 2) + OUTPUT % name, run_dir=tmp_path / "run")


def test_dummy_data(tmp_path: Path) -> None:
    text = (
        'layer { name: "d" type: "DummyData" top: "a" top: "b" dummy_data_param { num: 2 channels: 3 height: 1 '
        'width: 1 data_filler { type: "constant" value: 4 } data_filler { type: "uniform" min: 2 max: 3 } } }\n'
    )
    pt.caffe.set_random_seed(1)
    net = make_net(tmp_path, text + power("b", "y", 2))
    first = net.forward()["y"].copy()
    np.testing.assert_array_equal(net.blobs["a"].data, np.full((2, 3, 1, 1), 4))
    assert 2 <= net.blobs["b"].data.min() <= net.blobs["b"].data.max() <= 3
    assert (net.forward()["y"] != first).any()
    pt.caffe.set_random_seed(1)
    np.testing.assert_array_equal(make_net(tmp_path, text + power("b", "y", 2)).forward()["y"], first)


def test_parameter_and_silence(tmp_path: Path) -> None:
    text = (
        "force_backward: true\n"
        'layer { name: "w" type: "Parameter" top: "w" parameter_param { shape { dim: 2 dim: 3 } } }\n'
        + INPUT.format("x", "dim: 2 dim: 3")
        + 'layer { name: "m" type: "Eltwise" bottom: "w" bottom: "x" top: "y" eltwise_param { operation: PROD } }\n'
        + power("x", "z", 2)
        + 'layer { name: "s" type: "Silence" bottom: "z" }\n'
    )
    net = make_net(tmp_path, text)
    assert net.outputs == ["y"]
    net.params["w"][0].data[...] = [[1, 2, 3], [4, 5, 6]]
    x = np.full((2, 3), 2, np.float32)
    np.testing.assert_array_equal(net.forward(x=x)["y"], [[2, 4, 6], [8, 10, 12]])
    gradient = net.backward(y=np.ones((2, 3)))["x"]
    np.testing.assert_array_equal(gradient, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(net.params["w"][0].diff, x)
