"""`prototorch summary` of a Caffe net shows its blobs."""

from __future__ import annotations

import json

import pytest

from prototorch.cli.main import main

NET = """
input: "data" input_dim: 4 input_dim: 3 input_dim: 9 input_dim: 9
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 5 kernel_size: 2 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "ip/a" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 7 } }
"""


def run(capfd, *args):
    """Run a command; its standard output."""
    with pytest.raises(SystemExit) as done:
        main(list(args))
    assert not done.value.code
    return capfd.readouterr().out


def test_the_blobs_of_a_caffe_net_have_all_their_axes(capfd, tmp_path):
    (tmp_path / "n.prototxt").write_text(NET)
    out = run(capfd, "summary", str(tmp_path / "n.prototxt"))
    rows = [line.split("  ") for line in out.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    for expected in (
        ["blob", "shape", "layer"],
        ["data", "[4, 3, 9, 9]", "input (Input)"],
        ["conv", "[4, 5, 8, 8]", "conv (Convolution)"],
        ["conv", "[4, 5, 8, 8]", "relu (ReLU)"],
        ["pool", "[4, 5, 4, 4]", "pool (Pooling)"],
        ["ip", "[4, 7]", "ip/a (InnerProduct)"],
    ):
        assert expected in cells, out


def test_the_blobs_are_in_the_json_too_and_only_there_for_caffes_nets(capfd, tmp_path):
    (tmp_path / "n.prototxt").write_text(NET)
    rows = json.loads(run(capfd, "summary", str(tmp_path / "n.prototxt"), "--json"))["blobs"]
    assert rows[-1] == {"blob": "ip", "shape": [4, 7], "layer": "ip/a", "type": "InnerProduct"}
    assert "blobs" not in json.loads(run(capfd, "summary", "lenet", "--json"))
