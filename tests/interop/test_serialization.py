"""`pt.save` and `pt.load`: state dictionaries and checkpoints in PyTorch's own files, both ways, without code."""

import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import ModelFileError, UsageError


def net(lib):
    return lib.nn.Sequential(lib.nn.Conv2d(2, 3, 3), lib.nn.BatchNorm2d(3), lib.nn.Flatten(), lib.nn.Linear(12, 2))


@pytest.mark.parametrize("suffix", ["pt", "pth", "safetensors", "bin"])
def test_a_state_goes_into_a_file_and_back(tmp_path, suffix):
    ours, other = net(pt), net(pt)
    path = tmp_path / f"net.{suffix}"
    pt.save(ours.state_dict(), path)
    assert repr(other.load_state_dict(pt.load(path))) == "<All keys matched successfully>"
    for a, b in zip(ours.state_dict().values(), other.state_dict().values(), strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a.numpy(), b.numpy())


def test_files_go_to_pytorch_and_come_from_it(tmp_path):
    ours, theirs = net(pt), net(torch)
    pt.save(ours.state_dict(), tmp_path / "a.pt")
    theirs.load_state_dict(torch.load(tmp_path / "a.pt", weights_only=True))
    assert np.array_equal(theirs[0].weight.detach().numpy(), ours[0].weight.numpy())
    with torch.no_grad():
        theirs[0].weight += 1
    torch.save(theirs.state_dict(), tmp_path / "b.pt")
    ours.load_state_dict(pt.load(tmp_path / "b.pt", map_location="cpu"))
    assert np.array_equal(theirs[0].weight.detach().numpy(), ours[0].weight.numpy())


CHECKPOINT = {"epoch": 3, "loss": 0.25, "note": "ü", "none": None, "flags": (True, False), 7: [1, -2, 2**40],
              "nested": OrderedDict(a={"b": []})}  # fmt: skip


def test_checkpoints_keep_their_structure(tmp_path):
    value = {**CHECKPOINT, "model": {"w": pt.tensor([1.0, 2.0])}, "half": pt.tensor([1.5], dtype=pt.bfloat16),
             "count": pt.tensor(5)}  # fmt: skip
    pt.save(value, tmp_path / "c.pt")
    for loaded, lib in ((pt.load(tmp_path / "c.pt"), pt), (torch.load(tmp_path / "c.pt", weights_only=True), torch)):
        assert {k: v for k, v in loaded.items() if k in CHECKPOINT} == CHECKPOINT
        assert loaded["model"]["w"].tolist() == [1.0, 2.0]
        assert loaded["half"].dtype == lib.bfloat16
        assert loaded["count"].item() == 5
    theirs = {**CHECKPOINT, "model": {"w": torch.tensor([[1.0, 2.0]]).T}, "dtype": torch.float32}
    for is_zip in (True, False):
        torch.save(theirs, tmp_path / "d.pt", _use_new_zipfile_serialization=is_zip)
        for source in (tmp_path / "d.pt", io.BytesIO((tmp_path / "d.pt").read_bytes())):
            loaded = pt.load(source)
            assert {k: v for k, v in loaded.items() if k in CHECKPOINT} == CHECKPOINT
            assert loaded["model"]["w"].tolist() == [[1.0], [2.0]]
            assert loaded["dtype"] == pt.float32


def test_a_tensor_alone_and_loaded_tensors_can_be_changed(tmp_path):
    pt.save(pt.tensor([1.0, 2.0]), tmp_path / "t.pt")
    x = pt.load(tmp_path / "t.pt")
    x += 1
    assert x.tolist() == [2.0, 3.0]
    assert pt.load(tmp_path / "t.pt").tolist() == [1.0, 2.0]


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_code_in_a_file_is_refused_and_does_not_run(tmp_path):
    torch.save({"w": torch.zeros(1), "x": Touch(tmp_path / "ran")}, tmp_path / "bad.pt")
    with pytest.raises(ModelFileError, match="with which code would have to be run"):
        pt.load(tmp_path / "bad.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    with pytest.raises(ModelFileError):
        pt.load(tmp_path / "plain.pt")
    torch.save(net(torch), tmp_path / "module.pt")
    with pytest.raises(ModelFileError, match="holds a whole pickled object"):
        pt.load(tmp_path / "module.pt")
    assert not (tmp_path / "ran").exists()


def test_containers_that_hold_themselves_are_refused(tmp_path):
    loop: list[object] = []
    loop.append(loop)
    torch.save(loop, tmp_path / "loop.pt")
    with pytest.raises(ModelFileError, match="holds itself"):
        pt.load(tmp_path / "loop.pt")
    wide: list[object] = []
    for _ in range(60):
        wide = [wide, wide]
    torch.save(wide, tmp_path / "wide.pt")
    assert len(pt.load(tmp_path / "wide.pt")) == 2


def loop():
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(("value", "name", "message"), [
    (nn.Linear(1, 1), "a.pt", "a whole module .Linear. is not saved.*save its state_dict"),
    ({"f": print}, "a.pt", "f is a builtin_function_or_method: a file holds tensors"),
    ({"x": np.zeros(2)}, "a.pt", "make it one by pt.tensor"), ([pt.zeros(1)], "a.safetensors", "use the suffix .pt"),
    (loop(), "a.pt", "nested deeper than 100 levels"),
], ids=["module", "function", "array", "list", "loop"])  # fmt: skip
def test_what_cannot_be_saved(tmp_path, value, name, message):
    with pytest.raises(UsageError, match=message):
        pt.save(value, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_arguments_that_are_refused(tmp_path):
    with pytest.raises(UsageError, match="weights_only=False would run code"):
        pt.load(tmp_path / "a.pt", weights_only=False)
    with pytest.raises(UsageError, match="expected a path or an open file, got int"):
        pt.save({}, 3)


def test_load_stays_a_function_when_models_are_loaded():
    from prototorch.model.load import load_model

    assert pt.load_model is load_model
    assert pt.load.__module__ == "prototorch.utils.serialization"
