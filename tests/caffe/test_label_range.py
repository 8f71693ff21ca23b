"""Labels that are no class are an error in words, in a forward pass and in training."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import prototorch.caffe as caffe
from prototorch.errors import DataError

NET = """
input: "x" input_shape { dim: 2 dim: 3 dim: 2 }
input: "label" input_shape { dim: 2 dim: 2 }
layer { name: "acc" type: "Accuracy" bottom: "x" bottom: "label" top: "acc" accuracy_param { ignore_label: 255 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" loss_param { ignore_label: 255 } }
"""


@pytest.mark.parametrize("wrong", [3, -1, 1000, np.nan])
def test_a_label_that_is_no_class_is_named_with_its_layer_and_position(tmp_path, wrong):
    (tmp_path / "n.prototxt").write_text(NET)
    net = caffe.Net(str(tmp_path / "n.prototxt"), caffe.TEST)
    labels = np.array([[0, 255], [2, wrong]])
    with pytest.raises(DataError, match=r"layer 'acc' \(Accuracy\): the label .*\[1, 1\].* none of the 3 classes"):
        net.forward(label=labels, x=np.zeros((2, 3, 2)))
    labels[1, 1] = 255
    assert net.forward(label=labels, x=np.zeros((2, 3, 2)))["loss"] == pytest.approx(np.log(3))


@pytest.mark.parametrize("loss", ["SoftmaxWithLoss", "HingeLoss", "MultinomialLogisticLoss"])
def test_training_stops_at_a_label_that_is_no_class(tmp_path, monkeypatch, loss):
    monkeypatch.chdir(tmp_path)
    with h5py.File("d.h5", "w") as file:
        file["x"], file["label"] = np.random.default_rng(0).random((6, 4), np.float32), np.array([0, 1, 2, 1, 3, 0.0])
    (tmp_path / "d.txt").write_text("d.h5\n")
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "d" type: "HDF5Data" top: "x" top: "label" hdf5_data_param { source: "d.txt" batch_size: 2 } }'
        'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 3 } }'
        f'layer {{ name: "loss" type: "{loss}" bottom: "ip" bottom: "label" top: "loss" }}'
    )
    (tmp_path / "s.prototxt").write_text('net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 9')
    solver = caffe.SGDSolver("s.prototxt")
    solver.step(2)
    with pytest.raises(DataError, match=rf"layer 'loss' \({loss}\): the label 3 .*'label'.* none of the 3 classes"):
        solver.step(1)
