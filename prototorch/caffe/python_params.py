"""The parameter blobs of Python layers beside those of the net's own layers, for files of weights."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototorch.caffe.host_layers import HostLayer
from prototorch.caffe.interop.caffe_net import CaffeNet, CaffeParam
from prototorch.caffe.python_layer import PythonLayer
from prototorch.model.loading.layout.layout_table import WeightLayout
from prototorch.model.loading.layout.transforms import Transform

__all__ = ["with_python_params"]


def with_python_params(
    net: CaffeNet, host_layers: Mapping[int, HostLayer], arrays: Mapping[str, Any], what: str = "data"
) -> tuple[CaffeNet, Mapping[str, Any]]:
    """A net whose Python layers have their blobs as parameters, and the arrays of all parameters by name.

    host_layers: the net's, by position. arrays: of the net's own weights by name, or their gradients; what: "data" or
    "diff", accordingly. The arrays of Python layers are the blobs' own.
    """
    layers, blobs = list(net.layers), {}
    for index, host in host_layers.items():
        if not isinstance(host, PythonLayer):
            continue
        layer, params = layers[index], []
        for i, blob in enumerate(host.layer.blobs):
            name = f"{layer.name}:{index}/blob_{i}"
            blobs[name] = getattr(blob, what)
            layout = WeightLayout((f"blob_{i}",), (str(i),), Transform())
            params.append(CaffeParam(layer.name, i, layer.name, layout, (name,), blob.shape))
        layers[index] = replace(layer, params=tuple(params))
    if not blobs:
        return net, arrays
    return replace(net, layers=tuple(layers)), ChainMap(blobs, arrays)  # type: ignore[arg-type]
