"""The weights of a Caffe net written as Caffe writes them: ``.caffemodel`` and ``.caffemodel.h5``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from prototorch.caffe.interop.blob_proto import blob_message
from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet
from prototorch.caffe.interop.net_weights import layer_blobs
from prototorch.caffe.interop.splits import insert_splits
from prototorch.caffe.interop.wire import iter_encoded
from prototorch.caffe.text.message import Message
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.hdf5_image import encode_image
from prototorch.errors import UsageError

__all__ = ["hdf5_tree", "net_parameter", "write_caffemodel", "write_message"]

Entry = tuple[tuple[str, ...], np.ndarray | None]


def write_caffemodel(
    path: str | os.PathLike[str],
    net: CaffeNet,
    weights: Mapping[str, Any],
    gradients: Mapping[str, Any] | None = None,
) -> None:
    """Write a net's weights so that Caffe loads them: as HDF5 where the path ends with ``.h5``, else as a binary
    NetParameter; whole or not at all.

    weights, gradients: the net's arrays by name; gradients (``snapshot_diff``) are written as the blobs' ``diff``.
    Raises SnapshotError where the file cannot be written, UsageError for names of layers that HDF5 cannot hold.
    """
    if not os.fspath(path).endswith(".h5"):
        write_message(path, net_parameter(net, weights, gradients))
        return
    try:
        content = encode_image(hdf5_tree(net, weights, gradients))
    except ValueError as error:
        raise UsageError(f"{os.fspath(path)}: {error}; write a .caffemodel instead") from None
    write_bytes(path, content)


def write_message(path: str | os.PathLike[str], message: Message) -> None:
    """Write a message in its binary form, whole or not at all. Raises SnapshotError."""
    write_bytes(path, list(iter_encoded(message)))


def net_parameter(net: CaffeNet, weights: Mapping[str, Any], gradients: Mapping[str, Any] | None = None) -> Message:
    """The NetParameter of a net with its blobs, as Caffe's ``Net::ToProto`` gives it: with Split layers, each layer's
    phase, and what layers set when they are set up."""
    message = Message("NetParameter", name=net.message["name"])
    for new, layer in _with_splits(net):
        if not new.has("phase"):
            new["phase"] = net.phase
        if layer is not None:
            _set_up(new, layer)
            diffs = layer_blobs(net, layer, gradients) if gradients is not None else [None] * len(layer.params)
            blobs = zip(layer_blobs(net, layer, weights), diffs, strict=True)
            new["blobs"] = [blob_message(blob, diff) for blob, diff in blobs]
        message.set("layer", new)
    return message


def _with_splits(net: CaffeNet) -> Iterator[tuple[Message, CaffeLayer | None]]:
    """The layers' messages with the Split layers that Caffe inserts, which have no layer of the net."""
    layers = iter(net.layers)
    own = {layer.name for layer in net.layers if layer.type == "Split"}
    for new in insert_splits(net.message)["layer"]:
        yield new, next(layers) if new["type"] != "Split" or new["name"] in own else None


def _set_up(new: Message, layer: CaffeLayer) -> None:
    """What a layer of Caffe adds to its own parameters: a loss its weight, BatchNorm learning rates of 0."""
    if not new.has("loss_weight") and any(layer.loss_weights):
        new["loss_weight"] = [1.0]
    if layer.type == "BatchNorm":
        for _ in range(len(new["param"]), len(layer.params)):
            new.set("param", Message("ParamSpec", lr_mult=0.0))


def hdf5_tree(net: CaffeNet, weights: Mapping[str, Any], gradients: Mapping[str, Any] | None = None) -> Iterator[Entry]:
    """The groups and datasets of a ``.caffemodel.h5`` in the order in which Caffe makes them.

    A name with ``/`` gives groups in groups: Caffe itself cannot write such a net, nor read it.
    """
    yield ("data",), None
    if gradients is not None:
        yield ("diff",), None
    existing: set[tuple[str, ...]] = set()
    for new, layer in _with_splits(net):
        parts = tuple(new["name"].split("/"))
        roots = ["data"] if gradients is None else ["data", "diff"]
        for root in roots:
            yield from _groups((root, *parts), existing)
        if layer is None:
            continue
        diffs = layer_blobs(net, layer, gradients) if gradients is not None else [None] * len(layer.params)
        for param, blob, diff in zip(layer.params, layer_blobs(net, layer, weights), diffs, strict=True):
            if param.owner is None:
                yield ("data", *parts, str(param.index)), blob
            if diff is not None:
                yield ("diff", *parts, str(param.index)), diff


def _groups(path: tuple[str, ...], existing: set[tuple[str, ...]]) -> Iterator[Entry]:
    for end in range(2, len(path) + 1):
        if path[:end] not in existing:
            existing.add(path[:end])
            yield path[:end], None
