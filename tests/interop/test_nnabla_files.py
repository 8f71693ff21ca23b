"""NNabla's files, made by hand by its format: there is no package of it for this Python."""

import json

import h5py
import numpy as np
import pytest

from prototorch.errors import ModelFileError
from prototorch.model.loading.read.read_file import read_weights
from tests.security.hostile_keras import archive, field, hdf5, nnp, parameter, varint

ARRAYS = {
    "conv1/conv/W": np.random.default_rng(0).standard_normal((16, 1, 5, 5)).astype("f4"),
    "conv1/conv/b": np.arange(16, dtype="f4"),
    "bn1/bn/mean": np.ones((1, 16, 1, 1), "f4"),
    "fc3/affine/W": np.random.default_rng(1).standard_normal((3, 2)).astype("f4"),
    "scale": np.array(2.5, "f4"),
}


def tree(file):
    for index, (name, array) in reversed(list(enumerate(ARRAYS.items()))):
        file[name] = array
        file[name].attrs.update(need_grad=True, index=index)


def assert_read(path):
    file = read_weights(path)
    assert file.system == "nnabla"
    assert list(file) == list(ARRAYS)  # in the order in which they were registered
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(file[name], array)
        assert file[name].shape == array.shape


def test_hdf5(tmp_path):
    (tmp_path / "net.h5").write_bytes(hdf5(tree))
    assert_read(tmp_path / "net.h5")


@pytest.mark.parametrize("packed", [True, False])
def test_archive_of_protobuf(tmp_path, packed):
    content = b""
    for name, array in ARRAYS.items():
        if packed:
            content += parameter(name.encode(), array.shape, array.tobytes())
            continue
        dims = b"".join(field(1, n) for n in array.shape)
        numbers = b"".join(varint(100 << 3 | 5) + number.tobytes() for number in array.reshape(-1))
        content += field(200, field(1, name.encode()) + field(20, dims) + numbers)
    (tmp_path / "net.nnp").write_bytes(nnp(content, [("net.nntxt", "network {}"), ("a.optimizer", "x")]))
    assert_read(tmp_path / "net.nnp")
    assert read_weights(tmp_path / "net.nnp").skipped == {"a.optimizer": "the optimizer's state"}


@pytest.mark.parametrize("compression", [0, 8])
def test_archive_of_hdf5(tmp_path, compression):
    members = [("nnp_version.txt", "0.1\n"), ("parameter.h5", hdf5(tree))]
    (tmp_path / "net.nnp").write_bytes(archive(members, compression))
    assert_read(tmp_path / "net.nnp")


def test_keras_in_several_files(tmp_path):
    """The index, groups whose names and arrays are in different files, and what an index may not name."""
    from tests.interop import keras_nets

    model = keras_nets.build("many_of_a_class")
    keras_nets.quiet(model.save_weights)(str(tmp_path / "net.weights.json"), max_shard_size=0.000001)
    assert len(list(tmp_path.glob("*.h5"))) > 1
    file = read_weights(tmp_path / "net.weights.json")
    for layer in model.layers:
        np.testing.assert_array_equal(file[f"{layer.name}/kernel"], layer.kernel.value.detach().numpy())
    with h5py.File(tmp_path / "outside.weights.h5", "w") as outside:
        outside["layers/dense/vars/0"] = np.ones((2, 2), "f4")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.weights.h5").symlink_to(tmp_path / "outside.weights.h5")
    for name in (
        "../outside.weights.h5",
        str(tmp_path / "outside.weights.h5"),
        "link.weights.h5",
        "a\\b.weights.h5",
        "missing.weights.h5",
        "net.weights.json",
    ):
        index = tmp_path / "folder" / "net.weights.json"
        index.write_text(json.dumps({"weight_map": {"/layers/dense/vars": [name, "x.weights.h5"]}}))
        with pytest.raises(ModelFileError, match=r"net\.weights\.json|missing"):
            read_weights(index)
