"""The weights of a Caffe net, in our layouts, from and to Caffe's files: blob by blob, by the names of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import WeightsError
from prototorch.model.loading.assign.checked import Assignment
from prototorch.model.loading.layout.laid_out import LaidOutWeights
from prototorch.model.loading.layout.pairing import Mismatch, fitted_transform
from prototorch.model.loading.layout.transforms import Chain, IgnoredArray, ReshapeArray
from prototorch.model.loading.weight_file import StoredLayer, WeightFile

__all__ = ["copy_weights", "layer_blobs", "match_caffe_net"]


def match_caffe_net(net: CaffeNet, file: WeightFile) -> LaidOutWeights:
    """Which blobs of a file of Caffe are which weights of a net: those of the layer of the same name, in their order.

    Shared weights are read where the file has them, last of their owner. Nothing has been read or changed yet.
    """
    stored_layers = {layer.name: layer for layer in file.layers}
    params = {(param.layer, param.index): param for param in reversed(net.params)}
    assignments: dict[tuple[str, ...], Assignment] = {}
    missing: dict[str, None] = {}
    mismatched: list[Mismatch] = []
    used: set[str] = set()
    for layer in _first_of_each_name(net):
        blobs = stored_layers.get(layer.name, StoredLayer(layer.name, "", ())).weights
        by_index = {int(name.rpartition("/")[2]): name for name in blobs}
        for param in layer.params:
            name = by_index.get(param.index)
            if name is None:
                if param.owner is None:
                    missing.update(dict.fromkeys(param.weights))
                continue
            used.add(name)
            if isinstance(param.layout.transform, IgnoredArray):
                continue
            owner = param if param.owner is None else params[param.owner]
            transform = owner.layout.transform
            if owner.shape != param.shape:
                transform = Chain((ReshapeArray(owner.shape, param.shape), transform))
            fitting = fitted_transform(transform, (file.arrays[name],), (param.shape,))
            if fitting is None:
                mismatched += [
                    Mismatch(w, name, file.arrays[name].shape, param.shape, param.shape) for w in param.weights
                ]
            elif param.owner is None or param.weights not in assignments:
                assignments[param.weights] = Assignment(param.weights, (name,), fitting)
    for names in assignments:
        for name in names:
            missing.pop(name, None)
    unexpected = tuple(name for name in file.arrays if name not in used)
    return LaidOutWeights(file, "caffe", tuple(assignments.values()), tuple(missing), unexpected, tuple(mismatched), {})


def copy_weights(net: CaffeNet, weights: Mapping[str, Any], file: WeightFile) -> LoadReport:
    """Copy the weights of a file into a net's arrays as Caffe does (``copy_from``), and return the report.

    weights: the net's arrays by name. Layers that only the file has are left out, those that only the net has keep
    their values. After an error nothing has been changed. Raises WeightsError for a layer with another number of
    blobs or other shapes than the file's, ModelFileError for a damaged file.
    """
    match = match_caffe_net(net, file)
    names = {layer.name for layer in net.layers}
    extra = [name for name in match.unexpected if name.rpartition("/")[0] in names]
    lacking = [name for name in match.missing if _has_layer(file, net, name)]
    problems = [
        f"{m.array} has the shape {list(m.shape)}, the net expects {list(m.expected)}" for m in match.mismatched
    ]
    if extra:
        problems.append(f"the file has blobs that the net does not have: {', '.join(extra[:10])}")
    if lacking:
        problems.append(f"the file's layers lack blobs for {', '.join(lacking[:10])}")
    if problems:
        raise WeightsError(
            f"{file.path}: " + "; ".join(problems) + "; to begin these layers anew, rename them in the net"
        )
    return match.accept().assign(weights)


def _first_of_each_name(net: CaffeNet) -> list[CaffeLayer]:
    """The layers that a file's weights go to: the first of each name, as in Caffe."""
    return list({layer.name: layer for layer in reversed(net.layers)}.values())[::-1]


def _has_layer(file: WeightFile, net: CaffeNet, weight: str) -> bool:
    layers = {layer.name for layer in file.layers}  # also one without blobs: Caffe refuses another number of them
    return any(weight in param.weights and param.layer in layers for param in net.params)


def layer_blobs(net: CaffeNet, layer: CaffeLayer, weights: Mapping[str, Any]) -> list[np.ndarray]:
    """The parameter blobs of a layer in Caffe's layouts; shared ones are those of their owner, in the layer's shape.

    weights: the net's arrays by name, or its gradients.
    """
    params = {(param.layer, param.index): param for param in reversed(net.params)}
    blobs = []
    for param in layer.params:
        owner = param if param.owner is None else params[param.owner]
        (blob,) = owner.layout.transform.to_theirs(tuple(np.asarray(weights[name]) for name in owner.weights))
        blobs.append(blob.reshape(param.shape))
    return blobs
