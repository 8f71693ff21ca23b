"""Safetensors files: what its authors' package and PyTorch write is read exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file as save_tensors

import prototorch as pt
from prototorch.errors import ModelFileError, UsageError

RNG = np.random.default_rng(3)


def write(path, entries, data=b"", pad=b""):
    """A file of a header, which may be bytes, and the arrays' bytes."""
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + pad + data)
    return path


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
              "float64"],
)  # fmt: skip
def test_arrays_of_each_dtype_are_equal(tmp_path, dtype):
    values = RNG.normal(size=(3, 5, 7)) * 50
    arrays = {"a.b": (values > 0) if dtype == "bool" else np.abs(values).astype(dtype), "scalar": np.array(1, dtype)}
    arrays["none"] = np.zeros((0, 4), dtype)
    save_arrays(arrays, tmp_path / "w.safetensors")
    file = pt.read_weights(tmp_path / "w.safetensors")
    assert set(file) == set(arrays)
    for name, array in arrays.items():
        assert file[name].dtype == array.dtype
        assert file.arrays[name].dtype == dtype
        assert not file[name].flags.writeable
        np.testing.assert_array_equal(file[name], array)


LOW = {
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
}


@pytest.mark.parametrize("dtype", LOW)
def test_each_code_of_a_low_precision_is_widened_exactly(tmp_path, dtype):
    codes = torch.arange(65536 if dtype == "bfloat16" else 256)
    tensor = codes.to(torch.uint16 if dtype == "bfloat16" else torch.uint8).view(LOW[dtype])
    save_tensors({"w": tensor, "scalar": tensor[3].clone()}, tmp_path / "w.safetensors")
    file = pt.read_weights(tmp_path / "w.safetensors")
    assert file.arrays["w"].dtype == dtype
    np.testing.assert_array_equal(file["w"], tensor.to(torch.float32).numpy())
    np.testing.assert_array_equal(file["scalar"], tensor[3].to(torch.float32).numpy())


def test_the_metadata_tell_the_system(tmp_path):
    path = tmp_path / "w.safetensors"
    save_tensors({"w": torch.ones(2)}, path, metadata={"format": "pt", "epoch": "3"})
    file = pt.read_weights(str(path))
    assert (file.format, file.system, file.metadata["epoch"]) == ("safetensors", "torch", "3")
    save_arrays({"w": np.ones(2)}, path)
    assert pt.read_weights(path).system == ""


def test_the_content_decides_and_not_the_ending(tmp_path):
    save_arrays({"w": np.ones(2)}, tmp_path / "weights.bin")
    assert pt.read_weights(tmp_path / "weights.bin").format == "safetensors"


def test_the_arrays_are_views_of_the_file(tmp_path):
    save_arrays({"w": np.ones((100, 100), np.float32)}, tmp_path / "w.safetensors")
    array = pt.read_weights(tmp_path / "w.safetensors")["w"]
    assert array.base is not None
    assert not array.flags.owndata


def test_what_is_no_path_or_no_weights_is_refused(tmp_path):
    with pytest.raises(UsageError, match="expected the path"):
        pt.read_weights(3)
    with pytest.raises(ModelFileError, match="No such file"):
        pt.read_weights(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="is a folder"):
        pt.read_weights(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ModelFileError, match="is empty"):
        pt.read_weights(tmp_path / "empty")
    (tmp_path / "text").write_bytes(b"hello, world")
    with pytest.raises(ModelFileError, match=r"is of no known format of weights; read are .*safetensors"):
        pt.read_weights(tmp_path / "text")
