"""PyTorch's files: what each of its containers holds is read exactly as PyTorch reads it."""

from __future__ import annotations

import argparse
import collections
import pickle
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import ModelFileError
from tests.interop.real_files import real_file

CONTAINERS = {"zip": True, "legacy": False}


@pytest.fixture(params=CONTAINERS)
def save(request, tmp_path):
    """Saves an object in one of the containers; the path."""

    def save(value, **options):
        path = tmp_path / "w.pt"
        torch.save(value, path, _use_new_zipfile_serialization=CONTAINERS[request.param], **options)
        return path

    return save


def assert_equal(file, tensors):
    assert list(file) == list(tensors)
    for name, tensor in tensors.items():
        plain = tensor.detach()
        wide = plain.to(torch.float32) if file[name].dtype == np.float32 else plain
        assert file.arrays[name].shape == tuple(tensor.shape)
        assert f"torch.{file.arrays[name].dtype}" == str(tensor.dtype)
        np.testing.assert_array_equal(file[name], wide.numpy())
        assert not file[name].flags.writeable


def net():
    generator = torch.Generator().manual_seed(1)
    modules = [torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.LSTM(5, 7, 2), torch.nn.Linear(7, 2)]
    module = torch.nn.Sequential(*modules)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return module


def test_a_state_dict_is_read_exactly(save):
    state = net().state_dict()
    file = pt.read_weights(save(state))
    assert (file.system, dict(file.skipped), dict(file.metadata)) == ("torch", {}, {})
    assert_equal(file, state)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_each_protocol_of_pickle_is_read(save, protocol):
    state = net().state_dict()
    assert_equal(pt.read_weights(save(state, pickle_protocol=protocol)), state)


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_dtype_is_read(tmp_path, dtype):
    wide = torch.linspace(0, 60, 21).reshape(3, 7)
    tensors = {"a": wide.to(dtype), "scalar": wide[1, 2].to(dtype).clone(), "none": wide[:0].to(dtype)}
    torch.save(tensors, tmp_path / "w.pt")
    assert_equal(pt.read_weights(tmp_path / "w.pt"), tensors)


def test_views_of_one_storage_are_read(save):
    base = torch.arange(120, dtype=torch.float32)
    grid = base.view(4, 5, 6)
    tensors = {
        "base": base, "grid": grid, "transposed": grid.transpose(0, 2), "crop": grid[1:3, :, 2:5],
        "steps": base[3::7], "row": grid[2, 4], "element": base[17], "window": base.unfold(0, 6, 3),
        "row_repeated": base[:3].expand(4, 3),
        "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "reshaped": base.half().view(2, 60),
    }  # fmt: skip
    file = pt.read_weights(save(tensors))
    assert_equal(file, tensors)
    storages = {name: array.storage for name, array in file.arrays.items()}
    assert storages["base"] == storages["grid"] == storages["transposed"]
    assert len({storages[name] for name in ("base", "crop", "row", "element")}) == 4


def test_tied_weights_are_told(save):
    embedding, head = torch.nn.Embedding(11, 3), torch.nn.Linear(3, 11, bias=False)
    head.weight = embedding.weight
    file = pt.read_weights(save(torch.nn.ModuleDict({"e": embedding, "h": head}).state_dict()))
    assert file.arrays["e.weight"].storage == file.arrays["h.weight"].storage


def test_parameters_and_tensors_with_attributes_are_read(save):
    parameter = torch.nn.Parameter(torch.rand(3, 2))
    marked = torch.nn.Parameter(torch.rand(4))
    marked.note = "a text"
    tensor = torch.rand(2)
    tensor.note = [1, 2]
    tensors = {"p": parameter, "marked": marked, "tensor": tensor, "buffer": torch.nn.Buffer(torch.rand(3))}
    assert_equal(pt.read_weights(save(tensors)), tensors)


@pytest.mark.parametrize("value", [torch.rand(3, 2), [torch.rand(2), torch.rand(3)]], ids=["tensor", "list"])
def test_tensors_without_names_are_read(save, value):
    names = {"tensor": value} if isinstance(value, torch.Tensor) else {str(i): t for i, t in enumerate(value)}
    assert_equal(pt.read_weights(save(value)), names)


@pytest.mark.parametrize("wrapper", ["state_dict", "model", "net", "model_state_dict", "module"])
def test_the_weights_in_a_training_checkpoint_are_found(save, wrapper):
    module = net()
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.rand(1, 3, 5, 5)[:, :, :, :].clone())[0].sum() if False else None
    for parameter in module.parameters():
        parameter.grad = torch.rand_like(parameter)
    optimizer.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    state = collections.OrderedDict((f"module.{name}", tensor) for name, tensor in module.state_dict().items())
    checkpoint = {
        "epoch": 3, "arch": "net", "best_prec1": 71.2, wrapper: state, "optimizer": optimizer.state_dict(),
        "scheduler": schedule.state_dict(), "rng_state": torch.get_rng_state(), "classes": ["cat", "dog"],
        "ema": {"w": torch.ones(2)}, "nothing": None, "sizes": torch.Size([2, 3]), "device": torch.device("cpu"),
        "dtype": torch.float32, "z": {1, 2},
    }  # fmt: skip
    if wrapper != "module":
        del checkpoint["rng_state"]  # a tensor beside dictionaries: see below
    file = pt.read_weights(save({k: v for k, v in checkpoint.items() if k != "rng_state"}))
    assert_equal(file, state)
    assert file.metadata["wrapper"] == wrapper
    assert file.skipped["optimizer"] == "the optimizer's state"
    assert file.skipped["ema"] == "other tensors"
    assert file.skipped["epoch"] == "a number"
    assert file.skipped["arch"] == "a text"


def test_ten_thousand_tensors_with_the_state_of_adam_are_read(save):
    """1.2 million opcodes, which the 40,000 storages of the file account for."""
    parameters = [torch.nn.Parameter(torch.full((2,), float(k))) for k in range(10_000)]
    optimizer = torch.optim.Adam(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones(2)
    optimizer.step()
    state = {f"layer{k}.weight": parameter.data for k, parameter in enumerate(parameters)}
    path = save({"model": state, "optimizer": optimizer.state_dict()})
    file = pt.read_weights(path)
    assert len(file.arrays) == 10_000
    for name in ("layer0.weight", "layer9999.weight"):
        np.testing.assert_array_equal(file[name], state[name].numpy())
    assert file.skipped["optimizer"] == "the optimizer's state"


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("storages", [0, 1, 1000])
def test_opcodes_that_the_storages_of_a_file_do_not_account_for_are_refused(tmp_path, container, storages):
    """Two million opcodes beside some storages. Storages that only the pickle names account for nothing."""
    text = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x05\x00\x00\x00%05dX\x03\x00\x00\x00cpuK\xfftQ0"
    named = b"".join(text % k for k in range(20_000))
    pickled = b"\x80\x02" + named + b"}0" * 1_000_000 + b"}."
    path = tmp_path / "w.pt"
    if CONTAINERS[container]:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("w/data.pkl", pickled)
            for k in range(storages):
                archive.writestr(f"w/data/{k:05}", bytes(1020))
    else:
        legacy_file(path, pickled, [(f"{k:05}", np.zeros(255, "<f4")) for k in range(storages)])
    start = time.process_time()
    with pytest.raises(ModelFileError, match="more than 200,000 opcodes, and 100 for each storage that is in the file"):
        pt.read_weights(path)
    assert time.process_time() - start < 1


def test_several_nets_in_one_file_keep_their_keys(save):
    first, second = net().state_dict(), torch.nn.Linear(2, 3).state_dict()
    file = pt.read_weights(save({"generator": first, "discriminator": second, "optimizer_g": {"state": {0: first}}}))
    names = [f"generator.{name}" for name in first] + [f"discriminator.{name}" for name in second]
    assert list(file) == names
    assert file.skipped == {"optimizer_g": "the optimizer's state"}


def test_big_endian_files_are_read(tmp_path):
    tensors = {"a": torch.rand(3, 2), "b": torch.arange(5), "h": torch.rand(4).bfloat16()}
    torch.save(tensors, tmp_path / "little.pt")
    with zipfile.ZipFile(tmp_path / "little.pt") as old, zipfile.ZipFile(tmp_path / "big.pt", "w") as new:
        widths = {"little/data/0": 4, "little/data/1": 8, "little/data/2": 2}
        for name in old.namelist():
            content = old.read(name)
            if name in widths:
                content = np.frombuffer(content, f"<u{widths[name]}").byteswap().tobytes()
            new.writestr(name, b"big" if name.endswith("byteorder") else content)
    expected = torch.load(tmp_path / "big.pt", weights_only=True)
    assert_equal(pt.read_weights(tmp_path / "big.pt"), expected)
    assert torch.equal(expected["a"], tensors["a"])


def test_files_without_checksums_are_read(tmp_path, monkeypatch):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.arange(3.0)}, tmp_path / "w.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    np.testing.assert_array_equal(pt.read_weights(tmp_path / "w.pt")["a"], [0, 1, 2])


def legacy_file(path, pickled, storages):
    """A legacy container with a pickle of one's own."""
    keys = pickle.dumps([key for key, _ in storages], 2)
    head = b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    data = b"".join(array.size.to_bytes(8, "little") + array.tobytes() for _, array in storages)
    path.write_bytes(head + pickled + keys + data)
    return path


def test_views_of_a_storage_and_texts_of_python_2_are_read(tmp_path):
    """As PyTorch 0.3 wrote them under Python 2: SHORT_BINSTRING, and a view (key, offset, count) of a storage."""
    storage = b"(U\x07storagectorch\nFloatStorage\nU\x0212U\x03cpuK\x0a(U\x0299K\x04K\x06ttQ"
    tensor = b"ctorch._utils\n_rebuild_tensor\n(" + storage + b"K\x01(K\x02K\x02t(K\x02K\x01ttR"
    path = legacy_file(tmp_path / "w.pth", b"\x80\x02}(U\x01w" + tensor + b"u.", [("12", np.arange(10, dtype="<f4"))])
    np.testing.assert_array_equal(pt.read_weights(path)["w"], [[5, 6], [7, 8]])
    np.testing.assert_array_equal(torch.load(path, weights_only=True)["w"], [[5, 6], [7, 8]])


class Foreign(torch.nn.Module):
    """A class that a pickle would have to import."""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (torch.nn.Linear(2, 2), r"a whole pickled object, a torch\.nn\.modules\.linear\.Linear"),
        (Foreign(), r"a whole pickled object, a .*test_read_torch\.Foreign"),
        ({"args": argparse.Namespace(lr=1), "state_dict": {}}, r"argparse\.Namespace"),
        ({"best": np.float64(3), "w": torch.ones(1)}, r"numpy\..*multiarray\.scalar"),
        ({"f": print, "w": torch.ones(1)}, r"__builtin__\.print"),
        ({"path": Path("x"), "w": torch.ones(1)}, r"pathlib\."),
    ],
    ids=["module", "own module", "namespace", "numpy", "function", "path"],
)
def test_every_other_name_is_refused_by_its_name(save, value, name):
    with pytest.raises(ModelFileError, match=name + r".*save torch\.save\(model\.state_dict\(\), path\)"):
        pt.read_weights(save(value))


def test_sparse_quantized_and_conjugated_tensors_are_refused(tmp_path):
    with pytest.warns(UserWarning, match="quantize_per_tensor"):
        quantized = torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8)
    values = {
        r"sparse.*to_dense": torch.eye(3).to_sparse(),
        r"quantized.*dequantize": quantized,
        r"resolve_conj": torch.rand(3, dtype=torch.complex64).conj(),
        r"device 'meta'": torch.empty(3, device="meta"),
        r"repeats the 1 elements": torch.ones(1).expand(1 << 21),
    }
    for words, tensor in values.items():
        torch.save({"w": tensor}, tmp_path / "w.pt")
        with pytest.raises(ModelFileError, match=words):
            pt.read_weights(tmp_path / "w.pt")


def test_a_torchscript_program_is_refused(tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.trace(Twice(), torch.ones(2)), tmp_path / "w.pt")
    with pytest.raises(ModelFileError, match=r"TorchScript program.*torch\.save\(module\.state_dict\(\)"):
        pt.read_weights(tmp_path / "w.pt")


def test_a_file_without_tensors_says_what_it_holds(save):
    with pytest.raises(ModelFileError, match="has no tensors: it holds epoch, name"):
        pt.read_weights(save({"epoch": 3, "name": "x"}))


def test_the_published_weights_of_mobilenet_v2_are_read_exactly(tmp_path):
    path = real_file("mobilenet_v2", tmp_path)
    expected = torch.load(path, weights_only=True)
    assert_equal(pt.read_weights(path), expected)
    parameters = [tensor for name, tensor in expected.items() if not name.endswith(("_mean", "_var", "_tracked"))]
    assert sum(tensor.numel() for tensor in parameters) == 3_504_872
