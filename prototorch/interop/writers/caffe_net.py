"""Caffe's net files: a deploy prototxt, and a caffemodel beside it."""

from __future__ import annotations

import os

from prototorch.interop.caffe.export.net_export import export_net
from prototorch.interop.caffe.wire import iter_encoded
from prototorch.interop.writers.output_format import ModelToWrite, OutputFormat
from prototorch.storage.atomic_write import write_bytes
from prototorch.text.caffe.writer import format_message

__all__ = ["FORMAT", "write_caffe_net"]


def write_caffe_net(path: str, model: ModelToWrite, *, weights: bool = True) -> tuple[str, ...]:
    """Write a model as a net of Caffe for prediction; returns the paths of the files.

    The text goes to ``path``, the weights, unless ``weights`` is False or there are none, to a ``.caffemodel`` beside
    it. Raises TextError that names every layer that Caffe does not have, SnapshotError where a file cannot be written.
    """
    message = export_net(model.net, model.weights)
    text = message.copy()
    for layer in text["layer"]:
        layer.clear("blobs")
    write_bytes(path, format_message(text).encode())
    if not weights or not model.weights:
        return (path,)
    weights_path = f"{os.path.splitext(path)[0]}.caffemodel"
    write_bytes(weights_path, [memoryview(piece) for piece in iter_encoded(message)])
    return (path, weights_path)


FORMAT = OutputFormat("caffe", "Caffe", (), True, write_caffe_net, ("weights",))
