"""What is written for PyTorch: `torch.load` and safetensors read it, and modules take it with ``strict=True``."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import prototorch as pt
from prototorch.errors import SnapshotError, UsageError
from prototorch.interop.writers import find_output_format, write_model
from prototorch.model.foreign_files import ModelToWrite

RNG = np.random.default_rng(11)
ARRAYS = {
    "a.weight": RNG.normal(size=(3, 1, 5)).astype("f4"), "b": RNG.normal(size=(4, 7)).T, "half": np.ones(3, "f2"),
    "flag": np.array([True, False, True]), "count": np.array(7), "none": np.zeros((0, 3), "f4"),
    "big": np.arange(4, dtype=">i4"), "bytes": np.arange(5, dtype="u1"), "c": np.array([1 + 2j], "c8"),
    "päß.\U0001f600": np.arange(2.0),
}  # fmt: skip
READERS = {
    "w.pt": lambda path: torch.load(path, weights_only=True),
    "w.pth": lambda path: torch.load(path, mmap=True),
    "w.safetensors": load_file,
}


def mlp():
    """A net, and the module of PyTorch with the same names."""
    model = pt.Sequential([
        pt.Input((3, 9, 7)), pt.layers.Conv2D(5, 3, name="features/conv"),
        pt.layers.BatchNormalization(name="features/norm"), pt.layers.Flatten(), pt.layers.Dense(4, name="head"),
    ])  # fmt: skip
    for name, array in model.weights.items():
        model.weights[name] = RNG.random(array.shape).astype("f4") + 0.1
    features = torch.nn.ModuleDict({"conv": torch.nn.Conv2d(3, 5, 3), "norm": torch.nn.BatchNorm2d(5, eps=1e-3)})
    module = torch.nn.ModuleDict({"features": features, "head": torch.nn.Linear(175, 4)})
    return model, module.eval()


def to_write(model):
    return ModelToWrite(model.net, dict(model.weights), metadata={"license": "none"})


@pytest.mark.parametrize("name", READERS)
def test_arrays_come_back_from_their_own_readers(tmp_path, name):
    format = find_output_format(name)
    assert format.write_arrays(str(tmp_path / name), ARRAYS, {"a": "b"}) == (str(tmp_path / name),)
    tensors = READERS[name](tmp_path / name)
    assert list(pt.read_weights(tmp_path / name)) == list(ARRAYS)
    assert set(tensors) == set(ARRAYS)
    for key, array in ARRAYS.items():
        np.testing.assert_array_equal(tensors[key].numpy(), array)
        assert tensors[key].numpy().dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(pt.read_weights(tmp_path / name)[key], array)


@pytest.mark.parametrize("name", READERS)
def test_a_module_takes_the_weights_strictly_and_gives_our_outputs(tmp_path, name):
    model, module = mlp()
    write_model(tmp_path / name, to_write(model))
    module.load_state_dict(READERS[name](tmp_path / name), strict=True)
    x = RNG.normal(size=(2, 3, 9, 7)).astype("f4")
    with torch.no_grad():
        features = module["features"]["norm"](module["features"]["conv"](torch.from_numpy(x)))
        expected = module["head"](features.flatten(1)).numpy()
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-4)


@pytest.mark.parametrize("name", READERS)
def test_what_was_written_is_loaded_again(tmp_path, name):
    model, _ = mlp()
    write_model(tmp_path / name, to_write(model))
    other, _ = mlp()
    other.load_weights(tmp_path / name)
    for key, array in model.weights.items():
        np.testing.assert_array_equal(other.weights[key], array)


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_our_own_names_can_be_written(tmp_path, name):
    model, _ = mlp()
    write_model(tmp_path / name, to_write(model), names="prototorch")
    file = pt.read_weights(tmp_path / name)
    assert dict.fromkeys(file) == dict.fromkeys(model.weights)
    with pytest.raises(UsageError, match="names must be one of torch, prototorch"):
        write_model(tmp_path / name, to_write(model), names="keras")


def test_safetensors_tell_their_format_and_what_is_known(tmp_path):
    model, _ = mlp()
    write_model(tmp_path / "w.safetensors", to_write(model))
    with safe_open(tmp_path / "w.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "license": "none"}
    assert pt.read_weights(tmp_path / "w.safetensors").system == "torch"


def test_all_layers_that_pytorch_lacks_are_named(tmp_path):
    cells = [pt.layers.GRU(3, reset_after=False, return_sequences=True, name=name) for name in ("first", "second")]
    model = pt.Sequential([pt.Input((5, 2)), *cells])
    with pytest.raises(UsageError, match=r"first: .*reset(.|\n)*second: .*reset"):
        write_model(tmp_path / "w.pt", to_write(model))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_a_dtype_that_the_format_lacks_is_refused(tmp_path, name):
    dtype = "U3" if name == "w.safetensors" else "u8"
    with pytest.raises(UsageError, match="has no dtype"):
        find_output_format(name).write_arrays(str(tmp_path / name), {"a": np.zeros(2, dtype)}, {})


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, name):
    write = find_output_format(name).write_arrays
    write(str(tmp_path / name), {"a": np.zeros(2)}, {})
    before = (tmp_path / name).read_bytes()
    with pytest.raises(UsageError):
        write(str(tmp_path / name), {"a": np.zeros(2, "U3")}, {})
    with pytest.raises(SnapshotError):
        write(str(tmp_path / "missing" / name), {"a": np.zeros(2)}, {})
    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]
