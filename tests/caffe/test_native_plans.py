"""Nets of Caffe's usual layers run on native kernels alone, forward and backward."""

from __future__ import annotations

import pytest

from benchmarks.caffe_nets import steps_by_level
from prototorch.engine.backends.cpu import native

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [2, 3, 31, 31] } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 16 kernel_size: 5 stride: 2 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 5 alpha: 0.0001 } }
layer { name: "pool1" type: "Pooling" bottom: "norm1" top: "pool1"
  pooling_param { kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 group: 2 weight_filler { type: "msra" } } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "up" type: "Deconvolution" bottom: "pool2" top: "up"
  convolution_param { num_output: 16 kernel_size: 4 stride: 2 pad: 1 weight_filler { type: "bilinear" } } }
layer { name: "ip1" type: "InnerProduct" bottom: "up" top: "ip1"
  inner_product_param { num_output: 20 transpose: true weight_filler { type: "xavier" } } }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""


@pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")
def test_no_step_falls_back(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    counts, others = steps_by_level(path, {})
    assert others == []
    assert counts["native"] > 10
