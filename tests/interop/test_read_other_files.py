"""NumPy's files, prototorch's own, indices of several files; and formats that are refused, each with what to do."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file as save_arrays

import prototorch as pt
from prototorch.errors import ModelFileError
from prototorch.model.loading.read.read_file import formats

RNG = np.random.default_rng(5)
ARRAYS = {
    "layer/kernel": RNG.normal(size=(3, 5)).astype("f4"), "fortran": np.asfortranarray(RNG.normal(size=(4, 7, 2))),
    "big": RNG.integers(0, 99, (3, 2)).astype(">i4"), "half": RNG.normal(size=9).astype("f2"),
    "flag": np.array([True, False]),
    "scalar": np.array(3.5), "none": np.zeros((0, 3), "f4"), "complex": np.array([1 + 2j]),
}  # fmt: skip


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_archives_are_read_exactly(tmp_path, save):
    save(tmp_path / "w.npz", **ARRAYS)
    file = pt.read_weights(tmp_path / "w.npz")
    assert list(file) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(file[name], array)
        assert file[name].dtype.isnative
        assert file.arrays[name].shape == array.shape
        assert not file[name].flags.writeable


def test_arrays_that_are_not_compressed_are_mapped(tmp_path):
    np.savez(tmp_path / "w.npz", a=np.ones((50, 50), "f4"))
    assert not pt.read_weights(tmp_path / "w.npz")["a"].flags.owndata


def test_an_npy_file_is_one_array(tmp_path):
    np.save(tmp_path / "w.npy", ARRAYS["fortran"])
    file = pt.read_weights(tmp_path / "w.npy")
    assert list(file) == ["array"]
    np.testing.assert_array_equal(file["array"], ARRAYS["fortran"])


@pytest.mark.parametrize("position", [0.5, 0.9])
def test_a_changed_byte_of_an_array_is_found(tmp_path, position):
    np.savez(tmp_path / "w.npz", a=RNG.normal(size=1000))
    content = bytearray((tmp_path / "w.npz").read_bytes())
    content[int(len(content) * position)] ^= 1
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum is wrong"):
        _ = pt.read_weights(tmp_path / "w.npz")["a"]


def test_a_changed_byte_of_a_tensor_is_found(tmp_path):
    torch.save({"a": torch.rand(1000)}, tmp_path / "w.pt")
    content = bytearray((tmp_path / "w.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "w.pt").write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum is wrong"):
        _ = pt.read_weights(tmp_path / "w.pt")["a"]


def test_a_saved_model_of_ours_is_read(tmp_path):
    model = pt.Sequential([pt.Input((4,)), pt.layers.Dense(3, name="a"), pt.layers.BatchNormalization(name="b")])
    model.compile(optimizer="adam", loss="mse")
    model.fit(RNG.normal(size=(8, 4)), RNG.normal(size=(8, 3)), epochs=1, verbose=0)
    model.save(tmp_path / "m.h5")
    file = pt.read_weights(tmp_path / "m.h5")
    assert file.system == "prototorch"
    assert set(file) == set(model.weights)
    for name, array in file.items():
        np.testing.assert_array_equal(array, model.weights[name])
    assert file.skipped.get("optimizer") == "the optimizer's state"
    assert "Dense" in file.metadata["model_text"]
    content = bytearray((tmp_path / "m.h5").read_bytes())
    content[-5] ^= 1
    (tmp_path / "m.h5").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged: expected sha256"):
        pt.read_weights(tmp_path / "m.h5")


def write_index(folder, weight_map, name="model.safetensors.index.json"):
    (folder / name).write_text(json.dumps({"metadata": {"total_size": 3}, "weight_map": weight_map}))
    return folder / name


def test_an_index_that_lists_indexes_is_refused(tmp_path):
    """By its content: 2**40 files would be opened, and one that lists itself never ends."""
    for number in range(40):
        for side in "ab":
            write_index(tmp_path, {"w": f"n{number + 1}a.bin", "v": f"n{number + 1}b.bin"}, f"n{number}{side}.bin")
    for first in ({"w": "n0a.bin"}, {"w": "n39b.bin"}):
        with pytest.raises(ModelFileError, match=r"n(0a|39b)\.bin', which is itself an index"):
            pt.read_weights(write_index(tmp_path, first, "x.index.json"))
    with pytest.raises(ModelFileError, match="itself an index"):
        pt.read_weights(write_index(tmp_path, {"w": "itself.bin"}, "itself.bin"))
    write_index(tmp_path, {"w": ["x_00000.weights.h5"]}, "keras.bin")
    with pytest.raises(ModelFileError, match=r"keras\.bin', which is itself an index"):
        pt.read_weights(write_index(tmp_path, {"w": "keras.bin"}, "x.index.json"))


def test_the_files_of_an_index_are_read_as_one(tmp_path):
    for number in (1, 2):
        save_arrays(
            {f"w{number}": np.full(3, number), "both": np.full(2, number)}, tmp_path / f"m-{number}.safetensors"
        )
    index = write_index(tmp_path, {"w2": "m-2.safetensors", "w1": "m-1.safetensors", "both": "m-2.safetensors"})
    file = pt.read_weights(index)
    assert {name: array[0] for name, array in file.items()} == {"w2": 2, "w1": 1, "both": 2}
    assert file.format == "safetensors in 2 files"
    assert file.skipped == {"both": "not in the index, but in m-1.safetensors"}


def test_an_index_of_pytorch_files_is_read(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model-00001-of-00001.bin")
    index = write_index(tmp_path, {"a": "pytorch_model-00001-of-00001.bin"}, "pytorch_model.bin.index.json")
    assert pt.read_weights(index).system == "torch"


def test_an_index_in_the_cache_of_a_hub_is_read(tmp_path):
    """A hub's cache has links in a folder of the snapshot to the files of another folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    save_arrays({"a": np.ones(2)}, blobs / "abc")
    write_index(blobs, {"a": "m.safetensors"}, "def")
    (snapshot / "m.safetensors").symlink_to("../blobs/abc")
    (snapshot / "m.safetensors.index.json").symlink_to("../blobs/def")
    assert list(pt.read_weights(snapshot / "m.safetensors.index.json")) == ["a"]


@pytest.mark.parametrize(
    "shard", ["../m.safetensors", "/etc/passwd", "a/../m.safetensors", "..", "", ".", "link", "folder/m.safetensors",
              "..\\m.safetensors", "c:m", "m\0.safetensors", "index.index.json", "missing", "a" * 300],
)  # fmt: skip
def test_an_index_names_files_beside_it_only(tmp_path, shard):
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    for folder in (tmp_path, inside / "folder"):
        save_arrays({"a": np.ones(2)}, folder / "m.safetensors")
    os.symlink("../m.safetensors", inside / "link")
    with pytest.raises(ModelFileError):
        pt.read_weights(write_index(inside, {"a": shard}, "index.index.json"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged"), (b"{", "damaged"), (b"[]", "expected"), (b'{"weight_map": {}}', "expected"),
        (b'{"weight_map": {"a": 3}}', "name of a file"), (b'{"weight_map": {"a": "b", "a": "c"}}', "occurs twice"),
        (b"[" * 200_000, "damaged"), (b"\xff\xfe", "damaged"), (b'{"weight_map": {"../a": "m.safetensors"}}', "name"),
        (b'{"weight_map": {"none": "m.safetensors"}}', "has no weight 'none'"),
    ],
)  # fmt: skip
def test_a_damaged_index_is_refused(tmp_path, content, words):
    save_arrays({"a": np.ones(2)}, tmp_path / "m.safetensors")
    (tmp_path / "x.index.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        pt.read_weights(tmp_path / "x.index.json")


def folder_with(name):
    def make(path):
        path.mkdir()
        (path / name).write_bytes(b"")

    return make


def content(data):
    return lambda path: path.write_bytes(data)


REFUSED = {
    "saved_model": (folder_with("saved_model.pb"), "SavedModel.*save_weights"),
    "saved_model.pb": (content(b"\x08\x01"), "SavedModel"),
    "net.tflite": (content(b"\x1c\0\0\0TFL3"), "TensorFlow Lite.*ONNX"),
    "renamed.bin": (content(b"\x1c\0\0\0TFL3"), "TensorFlow Lite"),
    "net.mlpackage": (folder_with("Manifest.json"), "Core ML.*converted from"),
    "net.mlmodel": (content(b"\x08\x04"), "Core ML"),
    "net.gguf": (content(b"GGUF\x03\0\0\0"), "GGUF.*safetensors"),
    "net.ckpt.data-00000-of-00001": (content(b"\0"), "TensorFlow checkpoint"),
    "net.ckpt.index": (content(b"\0"), "TensorFlow checkpoint"),
    "old.pth": (content(bytes(257) + b"ustar\0" + bytes(100)), "tar archive.*state_dict"),
    "objects.pkl": (lambda path: path.write_bytes(pickle.dumps({"a": print})), "Python pickle.*never run"),
    "text.pkl": (lambda path: path.write_bytes(pickle.dumps({"a": print}, 0)), "Python pickle"),
    "system.pth": (content(b"cos\nsystem\n(S'true'\ntR."), "Python pickle"),
    "flax.msgpack": (content(b"\x81\xa1a"), "Flax"),
    "orbax": (folder_with("_METADATA"), "Orbax"),
    "net.caffemodel": (content(b"\x0a\x03"), "Caffe"),
    "page.pth": (content(b"\n<!DOCTYPE html><html>"), "HTML page.*login"),
    "pointer.safetensors2": (content(b"version https://git-lfs.github.com/spec/v1\noid"), "Git LFS.*git lfs pull"),
    "w.npz.gz": (content(b"\x1f\x8b\x08"), "gzip file"),
    "any.zip": (content(b"PK\x05\x06" + bytes(18)), "no known format"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_says_what_to_save_instead(tmp_path, name):
    make, words = REFUSED[name]
    make(tmp_path / name)
    with pytest.raises(ModelFileError, match=words) as caught:
        pt.read_weights(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_program_of_torch_export_is_refused(tmp_path):
    program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(ModelFileError, match=r"torch\.export.*state_dict"):
        pt.read_weights(tmp_path / "net.pt2")


def test_each_file_is_of_one_format(tmp_path):
    """Two readers that recognize one file would make the order of their names decide."""
    from prototorch.model.loading.read.file_format import UnknownFile

    np.savez(tmp_path / "a.npz", a=np.ones(2))
    np.save(tmp_path / "b.npy", np.ones(2))
    torch.save({"a": torch.ones(2)}, tmp_path / "c.pt")
    torch.save({"a": torch.ones(2)}, tmp_path / "d.pt", _use_new_zipfile_serialization=False)
    save_arrays({"a": np.ones(2)}, tmp_path / "e.safetensors")
    write_index(tmp_path, {"a": "e.safetensors"})
    for path in tmp_path.iterdir():
        names = [one.name for one in formats() if one.name and one.recognize(UnknownFile(path))]
        assert len(names) == 1, (path.name, names)
