"""The benchmarks compare like with like: each row's model and its twins have the same parameters; the table says so."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the twins of the rows are written in PyTorch")

from benchmarks import check  # noqa: E402 - PyTorch is asked for first
from benchmarks.contender import Setup  # noqa: E402
from benchmarks.peers import ENTRIES, OURS, select_entries  # noqa: E402
from benchmarks.peers.torch_nets import NETS  # noqa: E402
from benchmarks.peers.torch_peer import TorchContender  # noqa: E402
from benchmarks.prototorch_contender import PrototorchContender, build_model  # noqa: E402
from benchmarks.table import ResultLine  # noqa: E402
from benchmarks.workloads import WORKLOADS, make_images  # noqa: E402
from prototorch.model.diagnose import summary  # noqa: E402


@pytest.mark.parametrize("name", WORKLOADS)
def test_models_load_and_have_the_parameters_of_their_twins(name: str):
    with torch.device("meta"):  # no memory is taken
        twin = NETS[name]()
    trained = sum(p.numel() for p in twin.parameters() if p.requires_grad)
    assert summary(build_model(WORKLOADS[name])).trainable == trained


@pytest.mark.parametrize("name", ["lenet", "lstm"])
def test_the_first_steps_of_a_twin_are_ours(name: str):
    row, setup = WORKLOADS[name], Setup(threads=1, dropout=False)
    ours, twin = PrototorchContender(row, setup), TorchContender(row, setup)
    twin.load({key: np.array(value) for key, value in ours.model.weights.items()})
    found = []
    for one in (ours, twin):
        one.feed(*row.batch(2))
        found.append([one.train() for _ in range(3)])
    assert check.compare_parameters(ours.parameters(), twin.parameters()) is None
    assert check.compare_losses(*found) is None
    wrong = [found[1][0], found[1][0], found[1][0]]  # as of a twin that does not update
    assert "step 2" in str(check.compare_losses(found[0], wrong))


def test_names_of_peers():
    here = [entry.name for entry in select_entries(["torch"])[0]]
    assert here == [OURS, "torch", "torch-fused", "torch-channels_last"]
    assert [entry.name for entry in select_entries(["torch-fused"])[0]] == [OURS, "torch-fused"]
    assert "torch-compile" in [entry.name for entry in select_entries(["torch"], with_compile=True)[0]]
    with pytest.raises(KeyError):
        select_entries(["caffe"])


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found, notes = select_entries(["openvino"])
    assert [entry.name for entry in found] == [OURS]
    assert notes == ["openvino is left out: openvino, onnx, torch not installed"]


def test_layouts_are_for_pictures():
    last = ENTRIES["torch-channels_last"]
    assert last.takes(WORKLOADS["lenet"], training=True)
    assert not last.takes(WORKLOADS["mlp"], training=True)
    assert not ENTRIES["openvino"].takes(WORKLOADS["mlp"], training=True)


def test_a_line():
    line = ResultLine(
        "lenet", "64", "train", "ms", {OURS: 5.0, "torch": 23.9, "torch-fused": 13.6}, goal=2.0, check="same"
    )
    text = "| lenet | 64 | train | ms | 5 | torch-fused 13.6 | 2.72 | >= 2 yes | same | torch 23.9 |"
    assert line.text() == text
    failed = ResultLine("lenet", "64", "train", "ms", {"torch": 23.9}, goal=2.0)
    assert failed.text() == "| lenet | 64 | train | ms | failed | torch 23.9 |  | >= 2 |  |  |"
    assert ResultLine("lenet", "64", "first step, cold", "s", {OURS: 3.5}, limit=3.0).is_goal_reached is False


def test_made_up_pictures_are_the_same_each_time():
    (x, y), (again, _) = make_images(20), make_images(20)
    assert x.dtype == np.uint8
    assert x.shape == (20, 1, 28, 28)
    assert y.shape == (20,)
    np.testing.assert_array_equal(x, again)
