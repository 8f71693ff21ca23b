"""Ours to ONNX and back: the imported net gives the outputs of the exported model."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.interop.onnx.importer.model import import_graph
from prototorch.interop.onnx.model_file import open_onnx
from tests.interop.onnx.onnx_models import as_onnx, run_imported

pytest.importorskip("onnx")


def check(model, tmp_path, tolerance=1e-4):
    path = tmp_path / "net.onnx"
    model.build()
    rng = np.random.default_rng(0)
    for name, array in list(model.variables.items()):
        values = rng.uniform(0.5, 1.5, array.shape) if "variance" in name else rng.normal(0, 0.2, array.shape)
        model.variables.create(name, values.astype(array.dtype), own=True)
    model.export(str(path))
    graph = import_graph(open_onnx(path))
    feeds = [rng.standard_normal((2, *i.shape)).astype(np.float32) for i in model.net.inputs]
    expected = model.predict({i.name: x for i, x in zip(model.net.inputs, feeds, strict=True)}, verbose=0)
    expected = list(expected.values()) if isinstance(expected, dict) else [expected]
    for mine, value, theirs in zip(run_imported(graph.model, feeds), graph.outputs, expected, strict=True):
        difference = np.abs(as_onnx(mine, value) - theirs).max()
        assert difference <= tolerance * max(1, np.abs(theirs).max())
    return graph.model


TEXTS = {
    "convolutional": """input { shape: [3, 12, 10] }
        Conv2D { filters: 6  kernel_size: 3  padding: same  activation: relu }  BatchNormalization { }
        Add { branch { DepthwiseConv2D { kernel_size: 3  padding: same } } branch { } }
        MaxPooling2D { pool_size: 3  strides: 2  ceil_mode: true }  LRN { size: 3 }
        Flatten { }  Dropout { rate: 0.5 }  Dense { units: 5  activation: softmax }""",
    "recurrent": """input { shape: [7, 5] }
        Bidirectional { LSTM { units: 4  return_sequences: true } }
        GRU { units: 3  return_sequences: true }  Dense { units: 2 }""",
    "attention": """input { shape: [6, 8] }
        LayerNormalization { }  MultiHeadAttention { num_heads: 2  key_dim: 4 }
        GlobalAveragePooling1D { }  Dense { units: 3  activation: gelu }""",
    "image": """input { shape: [4, 6, 6] }
        GroupNormalization { groups: 2 }  Conv2DTranspose { filters: 3  kernel_size: 3  strides: 2 }
        UpSampling2D { }  Resizing { height: 9  width: 7 }  PReLU { shared_axes: [2, 3] }  ZeroPadding2D { }""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path, name):
    path = tmp_path / "net.proto"
    path.write_text(f'name: "net"\n{TEXTS[name]}\n', encoding="utf-8")
    check(pt.load_model(path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lenet", "alexnet", "resnet18", "squeezenet", "mobilenet_v2", "densenet121", "transformer"]
)
def test_shipped_models(tmp_path, name):
    check(pt.load_model(name), tmp_path, 1e-3)
