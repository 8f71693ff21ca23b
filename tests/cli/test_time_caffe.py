"""`prototorch time` and `summary` on nets of Caffe: a training step by layers, with Caffe's names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prototorch.cli import main
from prototorch.errors import UsageError
from prototorch.measure.caffe_profile import profile_caffe_net

LENET = Path(__file__).parents[1] / "caffe" / "golden" / "lenet"
ABSENT = """
name: "absent"
layer { name: "data" type: "Data" top: "data" top: "label"
        data_param { source: "no.lmdb" batch_size: 6 backend: LMDB } }
layer { name: "ip/1" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 4 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture
def shell(monkeypatch, capfd):
    monkeypatch.chdir(LENET)

    def run(*args):
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def test_a_train_net_is_measured_forward_and_backward(shell):
    code, out, err = shell("time", "lenet_train.prototxt", "--steps", "2", "--batch", "3", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["batch"] == 3
    layers = {layer["name"]: layer for layer in report["layers"]}
    assert {"conv1", "pool1", "conv2", "pool2", "ip1", "relu1", "ip2", "loss"} <= layers.keys()
    assert layers["conv2"]["seconds"]["forward"] > 0
    assert layers["conv2"]["seconds"]["backward"] > 0
    products = 2 * 3 * 50 * 8 * 8 * 20 * 25  # of the forward pass; backward twice as many, the first convolution once
    assert layers["conv2"]["flops"] == pytest.approx(3 * products, rel=0.05)
    assert layers["ip1"]["memory"] > 500 * 800 * 4


def test_a_deploy_net_is_measured_as_it_predicts(shell):
    code, out, err = shell("time", "lenet_deploy.prototxt", "--steps", "2", "--batch", "2")
    assert code == 0, err
    assert "LeNet: prediction, batch 2" in out or "prediction, batch 2" in out


def test_sizes_that_only_absent_data_tell_are_given(tmp_path):
    path = tmp_path / "absent.prototxt"
    path.write_text(ABSENT)
    with pytest.raises(UsageError, match=r"--set data.shape=\[3,227,227\]"):
        profile_caffe_net(str(path))
    profile = profile_caffe_net(str(path), rounds=1, settings=("data.shape=[5]",))
    assert profile is not None
    assert profile.batch == 6
    assert "ip/1" in [layer.name for layer in profile.layers]


def test_a_summary_has_the_layers_of_the_file(shell):
    code, out, err = shell("summary", "lenet_deploy.prototxt")
    assert code == 0, err
    for name in ("conv1", "pool1", "ip1", "ip2"):
        assert name in out
    assert "431,080 parameters" in out
