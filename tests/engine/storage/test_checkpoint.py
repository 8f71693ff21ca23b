"""Saved models: what is in the file, what is refused, and weights that fit partly."""

import json

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.storage import checkpoint, container
from prototorch.errors import ModelFileError, PrototorchError, WeightsError

TEXT = """
name: "small"
input { name: "x"  shape: [5] }
Dense { units: 4  name: "hidden"  activation: relu }
BatchNormalization { name: "norm" }
Dense { units: 3  name: "out" }
compile { loss: mse  optimizer: Adam { } }
"""
WEIGHTS = {
    "hidden/kernel", "hidden/bias", "norm/gamma", "norm/beta", "norm/moving_mean", "norm/moving_variance",
    "out/kernel", "out/bias",
}  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "small.proto").write_text(TEXT)
    model = pt.load_model(tmp_path / "small.proto")
    model.save(tmp_path / "small.h5")
    return model, tmp_path / "small.h5"


def changed(path, arrays=None, drop=(), **meta):
    """The file with some of its content replaced, well sealed."""
    found = container.read(path)
    kept = {name: array for name, array in found.arrays.items() if name not in drop}
    container.write(path, kept | (arrays or {}), found.meta | meta)
    return path


def test_a_saved_model_needs_neither_text_nor_prototorch(saved):
    model, path = saved
    with h5py.File(path) as file:
        assert set(file["weights/hidden"]) == {"kernel", "bias"}
        np.testing.assert_array_equal(file["weights/hidden/kernel"][()], model.weights["hidden/kernel"])
        assert "BatchNormalization" in file["@meta/model_text"].asstr()[()]
    again = pt.load_model(path)
    assert set(again.weights) == WEIGHTS
    for name, array in model.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)
    assert again.to_text() == model.to_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arrays": {"weights/out/bias": np.zeros(7, "f4")}}, r"out/bias: \[7\] in the file, \[3\] in the model"),
        ({"arrays": {"weights/out/bias": np.zeros(3, "f8")}}, "out/bias is float64, its own text makes it float32"),
        ({"arrays": {"weights/out/bias": np.zeros(3, "i4")}}, "out/bias is int32"),
        ({"arrays": {"weights/more/bias": np.zeros(3, "f4")}}, "1 not in the model: more/bias"),
        ({"drop": ["weights/out/bias"]}, "1 missing in the file: out/bias"),
        ({"kind": "letter"}, "not a saved model"),
        ({"format": 3}, r"written by a newer prototorch \(format 3, this one reads 2\)"),
        ({"format": "one"}, "invalid format version or text"),
        ({"model_text": 7}, "invalid format version or text"),
        ({"training": "{"}, "training state cannot be read"),
        ({"training": "[" * 100_000}, "training state cannot be read"),
        ({"training": "[1]"}, "training state must be a mapping, got list"),
        ({"training": '{"state": {"$array": "state/9"}}'}, "training state cannot be read"),
        ({"training": '{"state": {"epoch": 1}}'}, "its training state is wrong: step: expected a value, got nothing"),
        ({"training": '{"state": 5}'}, "its training state is wrong: step: expected a value, got nothing"),
        ({"model_text": "Dense { units: }"}, "A value is missing"),
        ({"model_text": 'include "/etc/passwd"'}, "cannot include"),
    ],
)
def test_files_that_contradict_themselves(saved, change, words):
    _, path = saved
    with pytest.raises(PrototorchError, match=words) as caught:
        pt.load_model(changed(path, **change))
    assert caught.value.exit_code in (3, 5)


def test_slots_that_do_not_fit(saved):
    """What the optimiser would use is looked at too, when it is needed."""
    _, path = saved
    model = pt.load_model(path)
    model.train_on_batch(np.ones((4, 5), "f4"), np.ones((4, 3), "f4"))
    model.save(path)
    slots = [name for name in container.read(path).arrays if name.startswith("optimizer/")]
    assert slots
    array = container.read(path).arrays[slots[0]]
    changed(path, {slots[0]: np.zeros((9, 9), array.dtype)})
    again = pt.load_model(path)
    with pytest.raises(WeightsError, match=r"from a file"):
        again.train_on_batch(np.ones((4, 5), "f4"), np.ones((4, 3), "f4"))


def test_loading_weights_by_name_and_shape(saved, tmp_path):
    model, path = saved
    other = tmp_path / "other.proto"
    other.write_text(TEXT.replace('units: 3  name: "out"', 'units: 6  name: "out"').replace('"hidden"', '"hiddem"'))
    theirs = pt.load_model(other)
    before = theirs.get_weights()
    with pytest.raises(WeightsError, match=r"(?s)2 missing in the file: .*Did you mean 'hidden/"):
        theirs.load_weights(path)
    with pytest.raises(WeightsError, match=r"out/kernel: \[4, 3\] in the file, \[4, 6\] in the model"):
        theirs.load_weights(path, by_name=True)
    for name, array in theirs.weights.items():
        np.testing.assert_array_equal(array, before[name])  # nothing was written by a load that was refused
    model.weights["norm/gamma"][...] = 7
    model.save_weights(path)
    report = theirs.load_weights(path, by_name=True, skip_mismatch=True)
    assert set(report.loaded) == {name for name in WEIGHTS if name.startswith("norm/")}
    assert set(report.missing) == {"hiddem/kernel", "hiddem/bias"}
    assert set(report.unexpected) == {"hidden/kernel", "hidden/bias"}
    assert {name for name, _, _ in report.mismatched} == {"out/kernel", "out/bias"}
    assert (theirs.weights["norm/gamma"] == 7).all()
    assert "4 weights loaded" in str(report)


def test_weights_alone_carry_no_training(saved, tmp_path):
    model, path = saved
    model.train_on_batch(np.ones((4, 5), "f4"), np.ones((4, 3), "f4"))
    model.save_weights(tmp_path / "w.h5")
    names = container.peek(tmp_path / "w.h5").specs
    assert {name.partition("/")[0] for name in names} == {"weights"}
    assert "training" not in container.peek(tmp_path / "w.h5").meta
    model.save(path)
    assert {name.partition("/")[0] for name in container.peek(path).specs} >= {"weights", "optimizer"}


def test_states_with_arrays_inside(tmp_path):
    """Callbacks may remember arrays, at any depth."""
    state = {"best": {"w": np.arange(3.0), "list": [np.ones(2, "f4"), 1, None, "x"]}, "rate": np.float32(0.5)}
    checkpoint.save(tmp_path / "f.h5", "text", {"a/b": np.zeros(2, "f4")}, state)
    found = checkpoint.load(tmp_path / "f.h5")
    np.testing.assert_array_equal(found.training["best"]["w"], np.arange(3.0))
    np.testing.assert_array_equal(found.training["best"]["list"][0], np.ones(2, "f4"))
    assert found.training["best"]["list"][1:] == [1, None, "x"]
    assert found.training["rate"] == 0.5
    assert json.loads(container.peek(tmp_path / "f.h5").meta["training"])["best"]["w"] == {"$array": "state/0"}


def test_a_damaged_model_is_refused(saved):
    _, path = saved
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"expected sha256 .* found"):
        pt.load_model(path)
