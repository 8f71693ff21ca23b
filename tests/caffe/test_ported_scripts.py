"""Scripts as they are written for pycaffe: they run with nothing changed but their imports."""

from __future__ import annotations

import re

import h5py
import numpy as np
import pytest
from PIL import Image

from prototorch.caffe.settings import SETTINGS

CLASSIFICATION = """
import numpy as np
import caffe
caffe.set_mode_cpu()
net = caffe.Net('deploy.prototxt', 'weights.caffemodel', caffe.TEST)
mu = np.load('mean.npy').mean(1).mean(1)
transformer = caffe.io.Transformer({'data': net.blobs['data'].data.shape})
transformer.set_transpose('data', (2, 0, 1))
transformer.set_mean('data', mu)
transformer.set_raw_scale('data', 255)
transformer.set_channel_swap('data', (2, 1, 0))
net.blobs['data'].reshape(5, 3, 16, 16)
image = caffe.io.load_image('cat.jpg')
transformed_image = transformer.preprocess('data', image)
net.blobs['data'].data[...] = transformed_image
output = net.forward()
output_prob = output['prob'][0]
top_inds = output_prob.argsort()[::-1][:3]
activations = [(name, blob.data.shape) for name, blob in net.blobs.items()]
weights = [(name, param[0].data.shape, param[1].data.shape) for name, param in net.params.items()]
filters = net.params['conv1'][0].data.transpose(0, 2, 3, 1)
feat = net.blobs['conv1'].data[0, :2]
shown = transformer.deprocess('data', net.blobs['data'].data[0])
"""

SURGERY = """
import numpy as np
import caffe
from caffe.proto import caffe_pb2
from caffe.proto import text_format
net = caffe.Net('deploy.prototxt', caffe.TEST, weights='weights.caffemodel')
net.params['conv1'][1].data[0] = 1.
net.params['conv1'][0].data[1] *= 2
net.save('edited.caffemodel')
model = caffe_pb2.NetParameter()
with open('deploy.prototxt') as f:
    text_format.Merge(f.read(), model)
size = net.blobs['pool1'].data.shape[2]
for layer in model.layer:
    if layer.type == 'InnerProduct':
        layer.type, layer.name = 'Convolution', layer.name + '-conv'
        layer.convolution_param.num_output = layer.inner_product_param.num_output
        layer.convolution_param.kernel_size.append(size)
        layer.ClearField('inner_product_param')
with open('full_conv.prototxt', 'w') as f:
    f.write(text_format.MessageToString(model))
net_full_conv = caffe.Net('full_conv.prototxt', 'edited.caffemodel', caffe.TEST)
fc_params = (net.params['ip'][0].data, net.params['ip'][1].data)
conv_params = (net_full_conv.params['ip-conv'][0].data, net_full_conv.params['ip-conv'][1].data)
conv_params[0].flat = fc_params[0].flat
conv_params[1][...] = fc_params[1]
net_full_conv.save('full_conv.caffemodel')
image = np.random.RandomState(0).rand(1, 3, 16, 16).astype(np.float32)
net.blobs['data'].reshape(*image.shape)
net.blobs['data'].data[...] = image
dense = net.forward()['prob']
net_full_conv.blobs['data'].reshape(1, 3, 24, 20)
net_full_conv.reshape()
image_full = np.zeros((1, 3, 24, 20), np.float32)
image_full[:, :, :16, :16] = image
out = net_full_conv.forward_all(data=image_full)
with open('full_conv.caffemodel', 'rb') as f:
    stored = caffe_pb2.NetParameter.FromString(f.read())
"""

LENET = """
import caffe
from caffe import layers as L, params as P
from caffe.proto import caffe_pb2

def lenet(source, batch_size):
    n = caffe.NetSpec()
    n.data, n.label = L.HDF5Data(batch_size=batch_size, source=source, ntop=2)
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=4, weight_filler=dict(type='xavier'))
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.fc1 = L.InnerProduct(n.pool1, num_output=16, weight_filler=dict(type='xavier'))
    n.relu1 = L.ReLU(n.fc1, in_place=True)
    n.score = L.InnerProduct(n.relu1, num_output=3, weight_filler=dict(type='xavier'))
    n.loss = L.SoftmaxWithLoss(n.score, n.label)
    return n.to_proto()

with open('train.prototxt', 'w') as f:
    f.write(str(lenet('data.txt', 8)))
with open('test.prototxt', 'w') as f:
    f.write(str(lenet('data.txt', 12)))
s = caffe_pb2.SolverParameter()
s.train_net = 'train.prototxt'
s.test_net.append('test.prototxt')
s.test_interval = 1000
s.test_iter.append(2)
s.max_iter = 40
s.type = 'SGD'
s.base_lr, s.momentum, s.weight_decay = 0.05, 0.9, 5e-4
s.lr_policy, s.gamma, s.power = 'inv', 0.0001, 0.75
s.display = 1000
s.snapshot_prefix = 'snap'
s.random_seed = 1
s.solver_mode = caffe_pb2.SolverParameter.CPU
with open('solver.prototxt', 'w') as f:
    f.write(str(s))
caffe.set_mode_cpu()
solver = None
solver = caffe.get_solver('solver.prototxt')
shapes = [(k, v[0].data.shape) for k, v in solver.net.params.items()]
first = float(solver.net.forward()['loss'])
solver.test_nets[0].forward()
solver.step(1)
gradient = solver.net.params['conv1'][0].diff[:, 0].copy()
niter, test_interval = 40, 10
train_loss, test_acc = [], []
for it in range(niter):
    solver.step(1)
    train_loss.append(float(solver.net.blobs['loss'].data))
    solver.test_nets[0].forward(start='conv1')
    if it % test_interval == 0:
        correct = 0
        for test_it in range(2):
            solver.test_nets[0].forward()
            correct += sum(solver.test_nets[0].blobs['score'].data.argmax(1)
                           == solver.test_nets[0].blobs['label'].data)
        test_acc.append(correct / 24.)
"""

DEPLOY = """
name: "tiny"
input: "data"
input_dim: 10 input_dim: 3 input_dim: 16 input_dim: 16
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 4 kernel_size: 5
        weight_filler { type: "xavier" } bias_filler { value: 0.1 } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool1" top: "ip" inner_product_param { num_output: 6
        weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory with a net, weights, an image, a mean and data."""
    import prototorch.caffe as caffe

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SETTINGS, "seed", 1)
    rng = np.random.default_rng(0)
    (tmp_path / "deploy.prototxt").write_text(DEPLOY)
    caffe.Net("deploy.prototxt", caffe.TEST).save("weights.caffemodel")
    np.save("mean.npy", rng.random((3, 16, 16)) * 255)
    Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save("cat.jpg")
    labels = np.arange(24) % 3
    data = rng.normal(size=(24, 1, 12, 12)) * 0.3
    for n, label in enumerate(labels):
        data[n, 0, :, 4 * label : 4 * label + 4] += 1
    with h5py.File("data.h5", "w") as file:
        file["data"], file["label"] = data.astype(np.float32), labels.astype(np.float32)
    (tmp_path / "data.txt").write_text("data.h5\n")
    return tmp_path


def run(script: str) -> dict:
    """The names of a script after it has run with its imports changed."""
    script = re.sub(r"^import caffe$", "import prototorch.caffe as caffe", script, flags=re.M)
    script = re.sub(r"^from caffe\b", "from prototorch.caffe", script, flags=re.M)
    names: dict = {}
    exec(compile(script, "script", "exec"), names)
    return names


def test_the_classification_notebook(folder):
    names = run(CLASSIFICATION)
    assert names["output"]["prob"].shape == (5, 6)
    np.testing.assert_allclose(names["output_prob"].sum(), 1, rtol=1e-5)
    assert names["top_inds"][0] == names["output_prob"].argmax()
    assert names["activations"] == [("data", (5, 3, 16, 16)), ("conv1", (5, 4, 12, 12)), ("pool1", (5, 4, 6, 6)),
                                    ("ip", (5, 6)), ("prob", (5, 6))]  # fmt: skip
    assert names["weights"] == [("conv1", (4, 3, 5, 5), (4,)), ("ip", (6, 144), (6,))]
    assert names["filters"].shape == (4, 5, 5, 3)
    assert names["feat"].min() >= 0
    resized = names["caffe"].io.resize_image(names["image"], (16, 16))
    np.testing.assert_allclose(names["shown"], resized, atol=1e-5)


def test_the_net_surgery_notebook(folder):
    names = run(SURGERY)
    out = names["out"]["prob"]
    assert out.shape == (1, 6, 5, 3)
    np.testing.assert_allclose(out[0, :, 0, 0], names["dense"][0], rtol=1e-4, atol=1e-6)
    stored = {layer.name: layer for layer in names["stored"].layer}
    assert list(stored["ip-conv"].blobs[0].shape.dim) == [6, 4, 6, 6]
    np.testing.assert_array_equal(np.array(stored["ip-conv"].blobs[0].data, np.float32), names["fc_params"][0].ravel())
    assert stored["conv1"].blobs[1].data[0] == 1


def test_the_lenet_notebook_with_net_spec_and_solver(folder):
    names = run(LENET)
    assert names["shapes"] == [("conv1", (4, 1, 5, 5)), ("fc1", (16, 64)), ("score", (3, 16))]
    assert np.abs(names["gradient"]).max() > 0
    assert names["first"] > 0.7
    assert np.mean(names["train_loss"][-3:]) < 0.2 * names["first"]
    assert names["test_acc"][-1] > 0.9
    assert names["solver"].iter == 41
