"""Weights and states of Caffe's files: those that Caffe wrote, and old forms made by the ``protobuf`` package."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.interop.solver_state import SolverState, read_solver_state, write_solver_state
from prototorch.caffe.interop.wire import encode, iter_encoded
from prototorch.caffe.text.message import Message
from prototorch.errors import ModelFileError
from tests.caffe.interop.protobuf_oracle import protobuf_message

LENET = Path(__file__).parents[2] / "caffe" / "golden" / "lenet"
BINARY, HDF5 = LENET / "lenet_iter_3.caffemodel", LENET / "lenet_iter_3.caffemodel.h5"


def parse(path, name):
    message = protobuf_message(name)
    message.ParseFromString(Path(path).read_bytes())
    return message


def test_a_binary_file_of_caffe_is_read():
    file = pt.read_weights(BINARY)
    expected = {
        f"{layer.name}/{i}": np.array(blob.data, "f4").reshape(blob.shape.dim)
        for layer in parse(BINARY, "NetParameter").layer
        for i, blob in enumerate(layer.blobs)
    }
    assert file.system == "caffe"
    assert list(file) == list(expected)
    for name, array in file.items():
        np.testing.assert_array_equal(array, expected[name])
    assert [(layer.name, layer.kind) for layer in file.layers][:3] == [
        ("in", "HDF5Data"), ("conv1", "Convolution"), ("pool1", "Pooling"),
    ]  # fmt: skip


def test_both_forms_of_one_net_are_equal():
    binary, hdf5 = pt.read_weights(BINARY), pt.read_weights(HDF5)
    assert binary.keys() == hdf5.keys()
    with h5py.File(HDF5) as tree:
        for name in binary:
            np.testing.assert_array_equal(hdf5[name], tree[f"data/{name}"][()])
            np.testing.assert_allclose(hdf5[name], binary[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("ending", ["", ".h5"])
def test_states_are_read_and_written_as_caffe_writes_them(tmp_path, ending):
    source = LENET / f"lenet_iter_3.solverstate{ending}"
    state = read_solver_state(source)
    assert (state.iteration, state.current_step) == (3, 0)
    assert state.learned_net == f"lenet_iter_3.caffemodel{ending}"
    expected = parse(LENET / "lenet_iter_3.solverstate", "SolverState").history
    for array, blob in zip(state.history, expected, strict=True):
        np.testing.assert_allclose(array.ravel(), blob.data, rtol=1e-5, atol=1e-9)
    path = tmp_path / f"again.solverstate{ending}"
    write_solver_state(path, state)
    check_equal_but_for_times(path.read_bytes(), source.read_bytes())


def check_equal_but_for_times(mine: bytes, theirs: bytes) -> None:
    """Files of HDF5 hold the time at which each dataset was made, in 4 bytes; all others must be equal."""
    assert len(mine) == len(theirs)
    different = np.nonzero(np.frombuffer(mine, "u1") != np.frombuffer(theirs, "u1"))[0]
    if mine.startswith(b"\x89HDF"):
        items = []
        with h5py.File(io.BytesIO(mine)) as file:
            file.visititems(lambda _, item: items.append(isinstance(item, h5py.Dataset)))
        assert len(different) <= 4 * sum(items)
    else:
        assert len(different) == 0


def test_states_of_double_precision_keep_it(tmp_path):
    state = SolverState(7, "a/b.caffemodel", 2, (np.arange(6.0).reshape(2, 3) / 3, np.ones((), np.float64)))
    for name in ("s.solverstate", "s.solverstate.h5"):
        write_solver_state(tmp_path / name, state)
        again = read_solver_state(tmp_path / name)
        assert (again.iteration, again.learned_net, again.current_step) == (7, "a/b.caffemodel", 2)
        for one, other in zip(again.history, state.history, strict=True):
            assert one.dtype == np.float64
            np.testing.assert_array_equal(one, other)


def v1_net():
    net = protobuf_message("NetParameter")
    net.name = "old"
    layer = net.layers.add(name="conv1", type=4, bottom=["data"], top=["conv1"])
    blob = layer.blobs.add(num=2, channels=3, height=1, width=1)
    blob.data.extend(range(6))
    blob = layer.blobs.add(num=1, channels=1, height=1, width=2)
    blob.double_data.extend([0.25, 1 / 3])
    layer = net.layers.add(name="fc", type=14)
    blob = layer.blobs.add(num=1, channels=1, height=4, width=2)
    blob.data.extend(range(8))
    blob.diff.extend(range(8))
    net.layers.add(name="prob", type=20)
    return net


def test_old_forms_are_read(tmp_path):
    path = tmp_path / "old.bin"  # recognized by its content
    path.write_bytes(v1_net().SerializeToString())
    file = pt.read_weights(path)
    assert {name: array.shape for name, array in file.items()} == {
        "conv1/0": (2, 3, 1, 1), "conv1/1": (1, 1, 1, 2), "fc/0": (1, 1, 4, 2),
    }  # fmt: skip
    assert file["conv1/1"].dtype == np.float64
    np.testing.assert_array_equal(file["conv1/1"].ravel(), [0.25, 1 / 3])
    assert [layer.kind for layer in file.layers] == ["Convolution", "InnerProduct", "Softmax"]
    assert "diff" in file.skipped


def test_the_oldest_form_is_read(tmp_path):
    net = protobuf_message("NetParameter")
    inner = net.layers.add(bottom=["data"], top=["conv1"]).layer
    inner.name, inner.type = "conv1", "conv"
    inner.blobs.add(num=1, channels=1, height=1, width=3).data.extend([1, 2, 3])
    path = tmp_path / "v0.caffemodel"
    path.write_bytes(net.SerializeToString())
    file = pt.read_weights(path)
    np.testing.assert_array_equal(file["conv1/0"], np.array([1, 2, 3]).reshape(1, 1, 1, 3))


def test_matrices_of_four_axes_are_loaded_into_a_net(tmp_path):
    net = protobuf_message("NetParameter")
    layer = net.layers.add(name="fc", type=14)
    layer.blobs.add(num=1, channels=1, height=3, width=2).data.extend(range(6))
    layer.blobs.add(num=1, channels=1, height=1, width=3).data.extend([5, 6, 7])
    path = tmp_path / "fc.caffemodel"
    path.write_bytes(net.SerializeToString())
    model = pt.load_model(pt_text(tmp_path, 'Dense { units: 3  name: "fc" }'))
    report = model.load_weights(path)
    assert not report.missing
    assert not report.unexpected
    np.testing.assert_array_equal(model.weights["fc/kernel"], np.arange(6).reshape(3, 2).T)
    np.testing.assert_array_equal(model.weights["fc/bias"], [5, 6, 7])


def pt_text(folder, layers):
    path = folder / "net.proto"
    path.write_text(f'input {{ name: "x"  shape: [2] }}\n{layers}\n')
    return path


def test_new_files_must_have_the_exact_shape(tmp_path):
    shape = Message("BlobShape", dim=[1, 1, 3, 2])
    blob = Message("BlobProto", shape=shape, data=np.zeros(6, np.float32))
    net = Message(
        "NetParameter", name="n", layer=[Message("LayerParameter", name="fc", type="InnerProduct", blobs=[blob])]
    )
    path = tmp_path / "fc.caffemodel"
    path.write_bytes(encode(net))
    model = pt.load_model(pt_text(tmp_path, 'Dense { units: 3  name: "fc"  use_bias: false }'))
    with pytest.raises(pt.errors.WeightsError, match=r"1, 1, 3, 2"):
        model.load_weights(path)


def test_of_layers_of_one_name_the_last_counts(tmp_path):
    net = protobuf_message("NetParameter")
    for value in (1, 2):
        layer = net.layer.add(name="a", type="Bias")
        blob = layer.blobs.add()
        blob.shape.dim.append(1)
        blob.data.append(value)
    path = tmp_path / "twice.caffemodel"
    path.write_bytes(net.SerializeToString())
    file = pt.read_weights(path)
    assert dict(file) == {"a/0": [2]}
    assert any("same name" in reason for reason in file.skipped.values())


def test_fields_of_forks_are_named(tmp_path):
    content = v1_net().SerializeToString() + b"\x82\x3e\x01\x00"  # field 992
    path = tmp_path / "fork.caffemodel"
    path.write_bytes(content)
    assert "NetParameter field 992" in pt.read_weights(path).skipped


def test_names_with_slashes_are_read(tmp_path):
    with h5py.File(tmp_path / "n.caffemodel.h5", "w") as file:
        file["data/inception_3a/1x1/0"] = np.ones((2, 2), "f4")
        file["data/inception_3a/1x1/1"] = np.ones(2, "f4")
        file.create_group("data/relu")
    file = pt.read_weights(tmp_path / "n.caffemodel.h5")
    assert file.system == "caffe"
    assert [layer.name for layer in file.layers] == ["inception_3a/1x1"]


def test_a_mean_image_is_read(tmp_path):
    shutil.copy(LENET.parent / "layers" / "H.binaryproto", tmp_path / "mean.binaryproto")
    array = pt.read_weights(tmp_path / "mean.binaryproto")["blob"]
    np.testing.assert_allclose(array, [[1, 0.2, 0], [0.1, 0.9, 0.3], [0, 0.4, 1.1]], rtol=1e-6)


@pytest.mark.parametrize("ending", ["", ".h5"])
def test_a_solver_state_is_not_taken_for_weights(ending):
    with pytest.raises(ModelFileError, match=r"solver state.*caffemodel"):
        pt.read_weights(LENET / f"lenet_iter_3.solverstate{ending}")


def test_a_text_is_not_taken_for_weights(tmp_path):
    path = tmp_path / "net.caffemodel"
    path.write_text('name: "net"\nlayer { name: "a" }\n')
    with pytest.raises(ModelFileError, match="it is a text, not a binary file"):
        pt.read_weights(path)


def test_files_of_more_than_two_gigabytes_are_read_and_written(tmp_path):
    """protobuf's own limit is 2 GB. The file is sparse, and nothing but its ends is touched."""
    count = 600_000_000
    zeros = np.broadcast_to(np.float32(0), (count,))
    blob = Message("BlobProto", data=zeros, shape=Message("BlobShape", dim=[count]))
    layer = Message("LayerParameter", name="big", type="Bias", blobs=[blob])
    pieces = iter_encoded(Message("NetParameter", name="n", layer=[layer]))
    path = tmp_path / "big.caffemodel"
    written = 0
    with open(path, "wb") as file:
        for piece in pieces:
            written += len(piece)
            if len(piece) > 1000:
                file.seek(len(piece), 1)
                if written > 2_400_000_000:
                    file.seek(-4, 1)
                    file.write(np.float32(3).tobytes())
            else:
                file.write(piece)
    assert written > 4 * count
    array = pt.read_weights(path)["big/0"]
    assert array.shape == (count,)
    assert (array[0], array[-1]) == (0, 3)
