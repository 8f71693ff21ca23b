"""Weights of our nets written as files of Caffe, by `convert` and `export`, and loaded again."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.interop.conversion.convert import convert
from tests.caffe.interop.test_native_nets import SOURCE, caffe_file

TEXT = """
input { name: "data"  shape: [3, 6, 6] }
Conv2D { name: "block/conv"  filters: 4  kernel_size: 3  activation: relu }
BatchNormalization { name: "norm"  epsilon: 1e-5 }
Flatten { }
Dense { name: "fc"  units: 2 }
"""


@pytest.mark.parametrize("name", ["net.caffemodel", "net.caffemodel.h5"])
def test_weights_go_to_caffe_and_back(tmp_path, name):
    (tmp_path / "net.proto").write_text(TEXT)
    model = pt.load_model(tmp_path / "net.proto")
    rng = np.random.default_rng(0)
    model.set_weights({k: rng.uniform(0.5, 1, w.shape).astype("f4") for k, w in model.weights.items()})
    model.save(tmp_path / "net.h5")
    convert(str(tmp_path / "net.h5"), str(tmp_path / name))
    file = pt.read_weights(tmp_path / name)
    assert file.system == "caffe"
    np.testing.assert_array_equal(file["fc/0"], model.weights["fc/kernel"].T)
    np.testing.assert_array_equal(file["norm/2"], [1])
    again = pt.load_model(tmp_path / "net.proto")
    report = again.load_weights(tmp_path / name)
    assert not report.missing
    assert not report.unexpected
    for key, array in model.weights.items():
        np.testing.assert_array_equal(again.weights[key], array)


def test_the_sums_of_a_batch_norm_come_back_as_they_were(tmp_path):
    text = SOURCE.format(norm="bn1", scale="scale1", top="b")
    (tmp_path / "deploy.prototxt").write_text(text)
    path, _ = caffe_file(tmp_path, "bn1", "scale1", weight=3.0)
    model = pt.load_model(tmp_path / "deploy.prototxt", weights=str(path))
    model.save(tmp_path / "net.h5")
    convert(str(tmp_path / "net.h5"), str(tmp_path / "again.caffemodel"))
    before, after = pt.read_weights(path), pt.read_weights(tmp_path / "again.caffemodel")
    assert sorted(after) == sorted(before)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    np.testing.assert_array_equal(after["bn1/2"], [3])
