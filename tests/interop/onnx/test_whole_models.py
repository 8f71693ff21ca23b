"""Whole ONNX models: onnx's light models, torchvision's nets by both exporters, pretrained nets of other packages."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from prototorch.interop.onnx.importer.model import import_graph
from prototorch.interop.onnx.model_file import open_onnx
from prototorch.interop.text_generation import generate_text
from tests.interop.onnx.onnx_models import as_onnx, assert_same_outputs, export, run_imported, run_onnxruntime
from tests.interop.torchvision_nets import torchvision_net

onnx = pytest.importorskip("onnx")
RNG = np.random.default_rng(0)
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
LIGHT_NAMES = [
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
]  # fmt: skip
TORCHVISION = [
    "alexnet", "vgg11", "googlenet", "resnet18", "resnet50", "squeezenet1_0", "squeezenet1_1", "mobilenet_v2",
    "mobilenet_v3_small", "densenet121", "shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0", "regnet_y_400mf",
    "convnext_tiny", "inception_v3",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT_NAMES)
def test_light_models_give_their_stored_outputs(name):
    graph = import_graph(open_onnx(LIGHT / f"light_{name}.onnx"))
    (declared,) = graph.model.net.inputs
    shape = (1, *declared.shape)
    size = int(np.prod(shape))
    x = np.arange(size).reshape(shape) / size  # as onnx's own runner makes them
    stored = onnx.TensorProto()
    stored.ParseFromString((LIGHT / f"light_{name}_output_0.pb").read_bytes())
    expected = onnx.numpy_helper.to_array(stored)
    (y,) = run_imported(graph.model, [x.astype(np.float32)])
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_nets(tmp_path, name, dynamo):
    torch = pytest.importorskip("torch")
    if (name, dynamo) == ("convnext_tiny", True):
        pytest.skip("this exporter numbers the samples of a batch (Range), which no net does")
    arguments = {"aux_logits": True, "init_weights": False} if name == "inception_v3" else {}
    size = {"inception_v3": 128, "alexnet": 224, "vgg11": 224}.get(name, 96)  # adaptive pooling needs whole windows
    net = torchvision_net(name, **arguments)
    path = export(net, [torch.randn(2, 3, size, size)], tmp_path / "net.onnx", dynamo)
    imported = assert_same_outputs(path, [RNG.standard_normal((3, 3, size, size)).astype(np.float32)])
    if name == "resnet50":
        assert len(generate_text(imported.net).text.splitlines()) <= 120


def _wheel(name: str) -> zipfile.ZipFile:
    """A package's wheel in the folder that PROTOTORCH_TEST_WHEELS names (pip download --no-deps); skips without it."""
    folder = os.environ.get("PROTOTORCH_TEST_WHEELS")
    found = sorted(Path(folder).glob(f"{name}-*.whl")) if folder else []
    if not found:
        pytest.skip(f"needs the wheel of {name}: pip download --no-deps, its folder in PROTOTORCH_TEST_WHEELS")
    return zipfile.ZipFile(found[0])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), [
    ("ch_PP-OCRv4_det_infer", (3, 64, 96)), ("ch_PP-OCRv4_rec_infer", (3, 48, 64)),
    ("ch_ppocr_mobile_v2.0_cls_infer", (3, 48, 192)),
])  # fmt: skip
def test_rapidocr(tmp_path, name, shape):
    path = tmp_path / "net.onnx"
    path.write_bytes(_wheel("rapidocr_onnxruntime").read(f"rapidocr_onnxruntime/models/{name}.onnx"))
    x = RNG.uniform(-1, 1, (2, *shape)).astype(np.float32)
    assert_same_outputs(str(path), [x], input_shapes={"x": shape})


@pytest.mark.slow
def test_silero_vad(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(_wheel("silero_vad").read("silero_vad/data/silero_vad_openvino_16k.onnx"))
    graph = import_graph(open_onnx(path), batch_axis={"state": 1})
    x, state = RNG.uniform(-1, 1, (1, 576)), RNG.standard_normal((2, 1, 128)) / 10
    x, state = x.astype(np.float32), state.astype(np.float32)
    outputs = run_imported(graph.model, [x, np.moveaxis(state, 1, 0)])
    expected = run_onnxruntime(str(path), [x, state])
    for array, value, theirs in zip(outputs, graph.outputs, expected, strict=True):
        assert np.abs(as_onnx(array, value) - theirs).max() <= 1e-4
