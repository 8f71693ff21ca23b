"""Caffe's files of weights alone: ``.caffemodel`` and ``.caffemodel.h5``, for a net that one has in Caffe."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prototorch.caffe.interop.blob_proto import blob_array
from prototorch.caffe.interop.export.net_export import export_net
from prototorch.caffe.interop.wire import iter_encoded
from prototorch.caffe.text.message import Message
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.hdf5_image import encode_image
from prototorch.errors import UsageError
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT"]

Entry = tuple[tuple[str, ...], np.ndarray | None]


def _write(path: str, model: ModelToWrite) -> tuple[str, ...]:
    """Write the weights of the layers that Caffe has for those of the net (see `export_net`).

    Raises TextError that names every layer that Caffe does not have, UsageError for names that HDF5 cannot hold.
    """
    message = export_net(model.net, model.weights)
    if not path.lower().endswith(".h5"):
        write_bytes(path, [memoryview(piece) for piece in iter_encoded(message)])
        return (path,)
    try:
        content = encode_image(_tree(message))
    except ValueError as error:
        raise UsageError(f"{path}: {error}; write a .caffemodel instead") from None
    write_bytes(path, content)
    return (path,)


def _tree(net: Message) -> Iterator[Entry]:
    yield ("data",), None
    existing: set[tuple[str, ...]] = set()
    for layer in net["layer"]:
        path = ("data", *layer["name"].split("/"))
        for end in range(2, len(path) + 1):
            if path[:end] not in existing:
                existing.add(path[:end])
                yield path[:end], None
        for index, blob in enumerate(layer["blobs"]):
            yield (*path, str(index)), blob_array(blob)


FORMAT = OutputFormat("caffemodel", "Caffe's weights", (".caffemodel", ".caffemodel.h5"), False, _write)
