"""Caffe's net files: a deploy prototxt, and a caffemodel beside it."""

from __future__ import annotations

import os
from dataclasses import replace

from prototorch.caffe.interop.export.net_export import export_net
from prototorch.caffe.interop.wire import iter_encoded
from prototorch.caffe.text.writer import format_message
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import UsageError
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.net_writer import net_fields
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite
from prototorch.text.writer import format_fields

__all__ = ["FORMAT", "write_caffe_net"]


def write_caffe_net(
    path: str, model: ModelToWrite, *, weights: bool = True, include_preprocess: bool = False
) -> tuple[str, ...]:
    """Write a model as a net of Caffe for prediction; returns the paths of the files.

    The text goes to ``path``, the weights, unless ``weights`` is False or there are none, to a ``.caffemodel`` beside
    it. include_preprocess: whether the layers of ``preprocess`` are a part of the net; else a comment tells what the
    caller has to do. Raises TextError that names every layer that Caffe does not have, SnapshotError where a file
    cannot be written.
    """
    net = _with_preprocess(model.net) if include_preprocess else model.net
    message = export_net(net, model.weights)
    text = message.copy()
    for layer in text["layer"]:
        layer.clear("blobs")
    only = replace(net, inputs=(), nodes=(), outputs=(), augment=(), class_names=())
    lines = format_fields([f for f in net_fields(only) if f.name == "preprocess"]).splitlines()
    comment = ["# Inputs are prepared before they are given to the net:", *(f"#   {n}" for n in lines)] if lines else []
    write_bytes(path, ("".join(f"{line}\n" for line in comment) + format_message(text)).encode())
    if not weights or not model.weights:
        return (path,)
    weights_path = f"{os.path.splitext(path)[0]}.caffemodel"
    write_bytes(weights_path, [memoryview(piece) for piece in iter_encoded(message)])
    return (path, weights_path)


def _with_preprocess(net: Net) -> Net:
    """The net with its preprocessing as its first layers. Raises UsageError for a net of several inputs."""
    if not net.preprocess:
        return net
    if len(net.inputs) != 1:
        raise UsageError("include_preprocess: the net has several inputs, and does not tell which is prepared")
    value, nodes = net.inputs[0].name, []
    for number, layer in enumerate(net.preprocess, 1):
        name = f"preprocess_{number}"
        nodes.append(LayerNode(name, layer, (value,), (name,)))
        value = name
    renamed_nodes = [
        replace(node, bottoms=tuple(value if b == net.inputs[0].name else b for b in node.bottoms))
        for node in net.nodes
    ]
    return replace(net, nodes=(*nodes, *renamed_nodes), preprocess=())


FORMAT = OutputFormat("caffe", "Caffe", (), True, write_caffe_net, ("weights", "include_preprocess"))
