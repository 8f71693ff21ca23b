"""Copying of a match's arrays: views of any order of axes, all or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from prototorch.errors import ModelFileError
from prototorch.model.loading.assign.checked import Assignment
from prototorch.model.loading.layout.laid_out import LaidOutWeights
from prototorch.model.loading.layout.transforms import Transform, TransposeArray
from prototorch.model.loading.read.read_file import read_weights
from prototorch.model.loading.weight_file import StoredArray, WeightFile


def _file(arrays: dict[str, StoredArray]) -> WeightFile:
    return WeightFile("w.h5", "made up", "torch", arrays)


def _match(file: WeightFile, **assignments: tuple[str, Transform]) -> LaidOutWeights:
    pairs = tuple(Assignment((ours,), (theirs,), transform) for ours, (theirs, transform) in assignments.items())
    return LaidOutWeights(file, "torch", pairs, (), (), (), {})


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((513, 700), (1, 0)), ((3, 300, 517), (2, 1, 0)), ((3, 3, 260, 300), (3, 2, 0, 1)), ((5, 7), (1, 0)),
        ((1, 70000), (1, 0)), ((0, 5), (1, 0)), ((300, 2, 300), (0, 2, 1)),
    ],
)  # fmt: skip
def test_a_transposed_array_is_copied_whole(tmp_path: Path, shape: tuple[int, ...], axes: tuple[int, ...]):
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    save_file({"a": array}, tmp_path / "w.safetensors")
    expected = array.transpose(axes)
    for dtype in (np.float32, np.float64):
        target = np.full(expected.shape, np.nan, dtype)
        _match(read_weights(tmp_path / "w.safetensors"), w=("a", TransposeArray(axes))).accept().assign({"w": target})
        np.testing.assert_array_equal(target, expected)


def test_an_array_that_cannot_be_read_leaves_all_weights_as_they_were():
    def fail() -> np.ndarray:
        raise ModelFileError("w.h5: b is damaged")

    arrays = {
        "a": StoredArray((3,), "float32", lambda: np.ones(3, np.float32)),
        "b": StoredArray((3,), "float32", fail),
    }
    weights = {"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float32)}
    with pytest.raises(ModelFileError, match="b is damaged"):
        _match(_file(arrays), a=("a", Transform()), b=("b", Transform())).accept().assign(weights)
    assert not any(array.any() for array in weights.values())


def test_a_reader_that_gives_another_shape_than_it_told_is_caught():
    arrays = {"a": StoredArray((3,), "float32", lambda: np.ones(1, np.float32))}
    with pytest.raises(ModelFileError, match=r"a gave \[1\] for w, expected \[3\]"):
        _match(_file(arrays), w=("a", Transform())).accept().assign({"w": np.zeros(3)})


def test_small_arrays_are_read_once_and_large_ones_are_not_held(monkeypatch: pytest.MonkeyPatch):
    reads: list[str] = []

    def reader(name: str):
        def read() -> np.ndarray:
            reads.append(name)
            return np.ones(1000, np.float32)

        return read

    monkeypatch.setattr("prototorch.model.loading.assign.checked._HELD_BYTES", 5000)
    arrays = {name: StoredArray((1000,), "float32", reader(name)) for name in ("a", "b")}
    weights = {name: np.zeros(1000, np.float32) for name in ("a", "b")}
    _match(_file(arrays), a=("a", Transform()), b=("b", Transform())).accept().assign(weights)
    assert sorted(reads) == ["a", "b", "b"]
    assert all(array.all() for array in weights.values())
