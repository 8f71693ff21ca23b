"""`save` to and `load` from open files, beside PyTorch's own."""

import io

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn
from prototorch.errors import ModelFileError, UsageError

torch = pytest.importorskip("torch")


def checkpoint():
    return {"model": nn.Linear(3, 2).state_dict(), "epoch": 3, "losses": [1.5, 0.5], "ids": pt.tensor([1, 2])}


def assert_same(a, b):
    assert set(a["model"]) == set(b["model"])
    for name in a["model"]:
        np.testing.assert_array_equal(a["model"][name].numpy(), b["model"][name].numpy())
    assert (a["epoch"], a["losses"], a["ids"].tolist()) == (b["epoch"], b["losses"], b["ids"].tolist())


def test_bytes_io_both_ways():
    buffer, state = io.BytesIO(), checkpoint()
    pt.save(state, buffer)
    buffer.seek(0)
    assert_same(state, pt.load(buffer))
    buffer.seek(0)
    assert_same(state, torch.load(buffer, weights_only=True))
    other = io.BytesIO()
    torch.save({"model": {"weight": torch.ones(2)}, "epoch": 3, "losses": [], "ids": torch.tensor([1])}, other)
    other.seek(0)
    assert pt.load(other)["model"]["weight"].tolist() == [1.0, 1.0]


def test_open_files_and_positions(tmp_path):
    state = checkpoint()
    with open(tmp_path / "a.bin", "wb") as file:
        file.write(b"header")
        pt.save(state, file)
    with open(tmp_path / "a.bin", "rb") as file:
        assert file.read(6) == b"header"
        assert_same(state, pt.load(file))
    with open(tmp_path / "b.pt", "wb") as file:
        pt.save(state, file)
    assert_same(state, pt.load(tmp_path / "b.pt"))
    assert_same(state, torch.load(tmp_path / "b.pt", weights_only=True))


def test_wrong_files(tmp_path):
    with pytest.raises(ModelFileError, match=r"seek\(0\)"):
        pt.load(io.BytesIO())
    with pytest.raises(ModelFileError, match=r"is no file of torch\.save"):
        pt.load(io.BytesIO(b"not a zip"))
    with pytest.raises(UsageError, match="not bytes"):
        pt.load(io.StringIO("text"))
    with pytest.raises(UsageError, match="'wb'"):
        pt.save({}, io.StringIO())
    (tmp_path / "c").write_bytes(b"x")
    with open(tmp_path / "c", "rb") as file, pytest.raises(UsageError, match="not open for writing"):
        pt.save({}, file)
    with open(tmp_path / "c", "wb") as file, pytest.raises(UsageError, match="not open for reading"):
        pt.load(file)
    with pytest.raises(UsageError, match="a path or an open file"):
        pt.save({}, 3)
