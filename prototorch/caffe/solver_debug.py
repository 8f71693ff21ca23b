"""What ``debug_info`` logs: the mean absolute values of blobs and parameters, layer by layer."""

from __future__ import annotations

import numpy as np

from prototorch.caffe.net import Net

__all__ = ["debug_lines"]


def debug_lines(net: Net) -> list[str]:
    """Lines about all blobs and parameters, first of the values and then, from the last layer on, of the gradients."""
    lines = []
    blobs, params = net.blobs, net.params
    for layer in net.caffe_net.layers:
        for top in layer.tops:
            lines.append(f"    [Forward] Layer {layer.name}, top blob {top} data: {_mean(blobs[top].read('data'))}")
        for index, param in enumerate(params.get(layer.name, ())):
            lines.append(f"    [Forward] Layer {layer.name}, param blob {index} data: {_mean(param.data)}")
    for layer in reversed(net.caffe_net.layers):
        for bottom in layer.bottoms:
            lines.append(
                f"    [Backward] Layer {layer.name}, bottom blob {bottom} diff: {_mean(blobs[bottom].read('diff'))}"
            )
        for index, param in enumerate(params.get(layer.name, ())):
            lines.append(f"    [Backward] Layer {layer.name}, param blob {index} diff: {_mean(param.diff)}")
    return lines


def _mean(array: np.ndarray) -> str:
    return f"{float(np.mean(np.abs(array))) if array.size else 0.0:.6g}"
