"""A net of Caffe computed by PyTorch: read by the ``protobuf`` package, layer by layer from Caffe's definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from google.protobuf import text_format

from tests.caffe.interop.protobuf_oracle import protobuf_message

__all__ = ["TorchNet"]


class TorchNet:
    """The forward pass of the phase TEST, for the layers of residual nets. blobs: all values of the last pass."""

    def __init__(self, text, caffemodel):
        self.net = text_format.Parse(Path(text).read_text(), protobuf_message("NetParameter"))
        source = protobuf_message("NetParameter")
        source.ParseFromString(Path(caffemodel).read_bytes())
        self.weights = {layer.name: [_tensor(blob) for blob in layer.blobs] for layer in source.layer}
        self.blobs = {}

    def __call__(self, image):
        name = self.net.input[0] if self.net.input else self.net.layer[0].top[0]
        self.blobs = {name: torch.from_numpy(image).double()}
        for layer in self.net.layer:
            if layer.type == "Input":
                continue
            bottoms = [self.blobs[name] for name in layer.bottom]
            (top,) = layer.top
            self.blobs[top] = getattr(self, layer.type)(layer, self.weights.get(layer.name, []), *bottoms)
        return self.blobs[self.net.layer[-1].top[0]].numpy()

    def Convolution(self, layer, weights, x):
        param = layer.convolution_param
        pad, stride = (param.pad or [0])[0], (param.stride or [1])[0]
        bias = weights[1] if param.bias_term else None
        return F.conv2d(x, weights[0], bias, stride, pad, groups=param.group)

    def BatchNorm(self, layer, weights, x):
        mean, variance, total = weights
        factor = 0 if total.item() == 0 else 1 / total.item()
        return F.batch_norm(x, mean * factor, variance * factor, eps=layer.batch_norm_param.eps)

    def Scale(self, layer, weights, x):
        y = x * weights[0].reshape(1, -1, 1, 1)
        return y + weights[1].reshape(1, -1, 1, 1) if layer.scale_param.bias_term else y

    def ReLU(self, layer, weights, x):
        return x.clamp_min(0)

    def Pooling(self, layer, weights, x):
        param = layer.pooling_param
        if param.pool == 0:
            return F.max_pool2d(x, param.kernel_size, param.stride, param.pad, ceil_mode=True)
        size = x.shape[-1] if param.global_pooling else param.kernel_size
        assert param.pad == 0
        return F.avg_pool2d(x, size, param.stride, ceil_mode=True)

    def Eltwise(self, layer, weights, *inputs):
        assert layer.eltwise_param.operation == 1
        return sum(inputs)

    def InnerProduct(self, layer, weights, x):
        return x.flatten(1) @ weights[0].reshape(layer.inner_product_param.num_output, -1).T + weights[1].reshape(-1)

    def Softmax(self, layer, weights, x):
        return x.softmax(1)


def _tensor(blob):
    shape = list(blob.shape.dim) or [blob.num, blob.channels, blob.height, blob.width]
    return torch.from_numpy(np.array(blob.data, np.float64).reshape(shape))
