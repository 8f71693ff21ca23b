"""ONNX models as nets: what PyTorch exports and made-up graphs, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.errors import ModelFileError, UsageError
from prototorch.interop.onnx.importer.model import import_onnx
from prototorch.interop.readers import read_weights
from tests.interop.onnx.onnx_models import assert_same_outputs, export, make_model, node, run_imported, save

torch = pytest.importorskip("torch")
nn = torch.nn
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.depthwise = nn.Conv2d(6, 6, (1, 3), padding=(0, 1)), nn.Conv2d(6, 12, 3, groups=6)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
        self.bn1.running_mean.uniform_(-1, 1), self.bn1.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(y + self.conv2(y))
        y = nn.functional.max_pool2d(nn.functional.hardswish(self.depthwise(y)), 2, ceil_mode=True)
        return torch.softmax(self.head(y.mean((2, 3), keepdim=True)), 1)


@pytest.mark.parametrize("dynamo", [False, True])
def test_torch_convolutional_net(tmp_path, dynamo):
    net = Residual().eval()
    path = export(net, [torch.randn(2, 3, 13, 11)], tmp_path / "net.onnx", dynamo)
    model = assert_same_outputs(path, [normal(5, 3, 13, 11)])
    names = [n.name for n in model.net.nodes]
    assert {"conv2", "depthwise", "head/1"} <= set(names)
    kernel = net.state_dict()["conv2.weight"].numpy()
    assert np.array_equal(model.weights["conv2/kernel"], kernel)


def test_torch_transformer_encoder(tmp_path):
    net = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, dropout=0.0).eval()
    path = export(net, [torch.randn(2, 7, 12)], tmp_path / "net.onnx", True)
    assert_same_outputs(path, [normal(4, 7, 12)])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(12, 36), nn.Linear(12, 12), nn.LayerNorm(12)
        self.token = nn.Parameter(torch.randn(1, 1, 12))

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        b, t, n = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 3, 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / 2, -1)
        folded = (weights.reshape(b * 3, t, t) @ v.reshape(b * 3, t, 4)).view(b, 3, t, 4)
        return x + self.out(nn.functional.gelu(folded.transpose(1, 2).reshape(b, t, n)))


@pytest.mark.parametrize("dynamo", [False, True])
def test_torch_attention_with_folded_heads(tmp_path, dynamo):
    path = export(Attention().eval(), [torch.randn(2, 5, 12)], tmp_path / "net.onnx", dynamo)
    assert_same_outputs(path, [normal(4, 5, 12)])


def test_weights_by_name(tmp_path):
    net = nn.Sequential(nn.Linear(7, 300), nn.ReLU(), nn.Linear(300, 2))
    path = export(net, [torch.randn(2, 7)], tmp_path / "net.onnx", False)
    file = read_weights(path)
    assert (file.format, file.system) == ("ONNX", "onnx")
    for name, value in net.state_dict().items():
        assert np.array_equal(file[name], value.numpy())


def test_ops_without_a_layer_are_listed_together(tmp_path):
    nodes = [
        node("Det", ["x"], ["a"]), node("Foo", ["a"], ["b"], domain="my.domain"),
        node("NonZero", ["x"], ["c"]), node("Add", ["b", "c"], ["y"]),
    ]  # fmt: skip
    path = save(make_model(nodes, {"x": ["N", 3, 3]}, ["y"]), tmp_path / "net.onnx")
    with pytest.raises(ModelFileError) as error:
        import_onnx(path)
    assert "Det, NonZero, my.domain:Foo" in str(error.value)


def test_open_sizes_are_asked_for(tmp_path):
    path = save(make_model([node("Relu", ["x"], ["y"])], {"x": ["N", 3, "height"]}, ["y"]), tmp_path / "net.onnx")
    with pytest.raises(UsageError, match=r"the input 'x' leaves sizes open: \[3, height\]"):
        import_onnx(path)
    with pytest.raises(UsageError, match=r"the shape \[3, height\] besides the batch dimension, not \[4, 2\]"):
        import_onnx(path, input_shapes={"x": (4, 2)})
    model = import_onnx(path, input_shapes={"x": (3, 2)})
    assert np.array_equal(run_imported(model, [-np.ones((2, 3, 2), np.float32)])[0], np.zeros((2, 3, 2)))
