"""ONNX models as nets: what PyTorch exports and made-up graphs, compared with ONNX Runtime."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from prototorch.errors import ModelFileError, UsageError
from prototorch.interop.onnx.importer.model import import_onnx
from prototorch.model.loading.read.read_file import read_weights
from tests.interop.onnx.onnx_models import assert_same_outputs, export, make_model, node, run_imported, save

onnx, torch = pytest.importorskip("onnx"), pytest.importorskip("torch")
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


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(2, 3, 3), nn.Linear(48, 5)

    def forward(self, x):
        return self.linear(torch.relu(self.conv(x)).view(x.size(0), -1))


class Reshaped(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 6)

    def forward(self, x):
        y = self.linear(x).transpose(1, 2).reshape(-1, 10).view(x.size(0), -1, 2, 5)
        return y.softmax(2), y.flatten(1) * torch.arange(30.0), self.linear(x).reshape(-1, 6)


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize(("module", "shape"), [(Flattened, (2, 6, 6)), (Reshaped, (5, 4))])
@pytest.mark.parametrize("batch", [1, 2])
def test_reshapes_of_a_file_made_for_one_batch_size(tmp_path, module, shape, dynamo, batch):
    torch.manual_seed(0)
    path, net = str(tmp_path / "net.onnx"), module().eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, (torch.randn(batch, *shape),), path, dynamo=dynamo, **({"external_data": False} if dynamo else {})
        )
        model = assert_same_outputs(path, [normal(batch, *shape)])
        x = normal(3, *shape)
        expected = net(torch.from_numpy(x))  # any batch size
    outputs = run_imported(model, [x])
    expected = expected if isinstance(expected, tuple) else [expected]
    for mine, theirs in zip(outputs, expected, strict=True):
        assert np.abs(mine.reshape(theirs.shape) - theirs.numpy()).max() < 1e-4
    assert outputs[0].shape == expected[0].shape


@pytest.mark.parametrize(("shape", "target"), [
    ((1, 4), [1, -1]), ((1, 4), [-1, 4]), ((1, 4), [-1, 1, 4]), ((1, 4), [1, -1, 4]), ((1, 6, 2), [1, 3, -1]),
    ((1, 6, 2), [2, -1, 2]), ((2, 4), [2, -1]), ((2, 6), [2, -1, 3]), ((2, 6), [-1, 3]), ((1, 1, 4), [-1, 2, 2]),
])  # fmt: skip
def test_a_reshape_keeps_each_sample(tmp_path, shape, target):
    nodes = [node("Reshape", ["x", "s"], ["v"]), node("Softmax", ["v"], ["y"], axis=-1)]
    model = make_model(nodes, {"x": list(shape)}, ["y"], {"s": np.array(target)})
    assert_same_outputs(save(model, tmp_path / "net.onnx"), [normal(*shape)])


def test_a_squeeze_of_a_file_made_for_a_batch_of_1(tmp_path):
    nodes = [node("Squeeze", ["x"], ["v"]), node("Softmax", ["v"], ["y"], axis=1)]
    model = make_model(nodes, {"x": [1, 1, 4, 5]}, ["y"])
    assert_same_outputs(save(model, tmp_path / "net.onnx"), [normal(1, 1, 4, 5)])


def test_an_output_of_another_shape_than_declared(tmp_path):
    model = make_model([node("Relu", ["x"], ["y"])], {"x": [1, 4]}, ["y"])
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", 1, [1, 5]))
    with pytest.raises(ModelFileError, match=r"'y' is declared as \[1, 5\], but the net gives \[1, 4\].*dynamic batch"):
        import_onnx(save(model, tmp_path / "net.onnx"))


def test_an_op_along_the_batch_of_a_file_made_for_one(tmp_path):
    model = make_model([node("Softmax", ["x"], ["y"], axis=0)], {"x": [1, 4]}, ["y"])
    with pytest.raises(ModelFileError, match=r"made for a batch of 1: .*--batch-axis"):
        import_onnx(save(model, tmp_path / "net.onnx"))


@pytest.mark.parametrize("first", ["time", 1])
def test_batch_normalization_of_samples_joined_with_time(tmp_path, first):
    nodes = [
        node("Reshape", ["x", "s"], ["v"]), node("BatchNormalization", ["v", "g", "b", "m", "n"], ["z"]),
        node("Reshape", ["z", "t"], ["y"]),
    ]  # fmt: skip
    weights = {k: np.abs(normal(4)) + 0.5 for k in "gbmn"} | {"s": np.array([-1, 4]), "t": np.array([-1, 5, 4])}
    model = make_model(nodes, {"x": [first, 5, 4]}, ["y"], weights)
    assert_same_outputs(save(model, tmp_path / "net.onnx"), [normal(1 if first == 1 else 3, 5, 4)])


def test_a_message_names_a_batch_joined_with_time(tmp_path):
    nodes = [node("Reshape", ["x", "s"], ["v"]), node("InstanceNormalization", ["v", "g", "g"], ["y"])]
    weights = {"s": np.array([-1, 4, 2]), "g": normal(4)}
    model = make_model(nodes, {"x": ["n", 3, 4, 2]}, ["y"], weights)
    with pytest.raises(ModelFileError, match=r"the shape \[3 \* batch, 4, 2\]: the batch alone is not its first"):
        import_onnx(save(model, tmp_path / "net.onnx"))


def test_attention_of_a_file_made_for_a_batch_of_1(tmp_path):
    path = str(tmp_path / "net.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, dropout=0.0).eval()
        torch.onnx.export(net, (torch.randn(1, 7, 12),), path, dynamo=True, external_data=False)
    assert_same_outputs(path, [normal(1, 7, 12)])


def test_time_joined_with_a_batch_of_1_before_a_product(tmp_path):
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("Reshape", ["t", "s"], ["v"]),
        node("MatMul", ["v", "w"], ["p"]), node("Reshape", ["p", "r"], ["q"]),
        node("Transpose", ["q"], ["y"], perm=[1, 0, 2]),
    ]  # fmt: skip
    weights = {"s": np.array([7, 4]), "w": normal(4, 3), "r": np.array([7, 1, 3])}
    model = make_model(nodes, {"x": [1, 7, 4]}, ["y"], weights)
    assert_same_outputs(save(model, tmp_path / "net.onnx"), [normal(1, 7, 4)])
