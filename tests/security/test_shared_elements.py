"""Small files whose many arrays are all the same few elements: refused before memory is taken for them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from prototorch.errors import ModelFileError
from prototorch.model.loading.read.read_file import read_weights


def test_tensors_that_repeat_few_elements_are_refused(tmp_path: Path):
    zero = torch.zeros(1)
    for zipped in (True, False):
        torch.save(
            {f"w{i}": zero.expand(1024, 1024) for i in range(300)},
            tmp_path / "w.pt",
            _use_new_zipfile_serialization=zipped,
        )
        start = time.process_time()
        with pytest.raises(ModelFileError, match=r"w\.pt: its arrays share their elements: they need 2.* are stored"):
            read_weights(tmp_path / "w.pt")
        assert time.process_time() - start < 5


def test_tensors_that_are_the_same_are_read(tmp_path: Path):
    """Tied weights: one matrix under several names."""
    matrix = torch.ones(2048, 1024)
    torch.save({f"w{i}": matrix for i in range(24)}, tmp_path / "w.pt")
    assert len(read_weights(tmp_path / "w.pt")) == 24


def test_tensors_that_are_the_same_part_of_another_file_are_refused(tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    with open(tmp_path / "data.bin", "wb") as file:
        file.truncate(8 << 20)
    graph = onnx.helper.make_graph([], "g", [], [])
    for i in range(40):
        tensor = graph.initializer.add(name=f"w{i}", data_type=1, data_location=1, dims=[2048, 1024])
        tensor.external_data.add(key="location", value="data.bin")
    onnx_file = onnx.helper.make_model(graph)
    (tmp_path / "m.onnx").write_bytes(onnx_file.SerializeToString())
    with pytest.raises(ModelFileError, match="its arrays share their elements"):
        read_weights(tmp_path / "m.onnx")
    del graph.initializer[20:]
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    assert len(read_weights(tmp_path / "m.onnx")) == 20
