"""The layers and blobs that a file of Caffe holds, ``.caffemodel`` of any version or ``.caffemodel.h5``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from prototorch.caffe.interop.blob_proto import blob_array, has_legacy_shape
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.upgrade_v1 import layer_type
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.engine.storage.tree_paths import find_name_error
from prototorch.errors import ModelFileError
from prototorch.model.loading.weight_file import StoredArray, StoredLayer, WeightFile

__all__ = ["file_of_hdf5", "file_of_message", "is_caffemodel_tree"]

_BLOB = re.compile(r"(data|diff)/(.+)/(0|[1-9][0-9]{0,3})")


def file_of_message(path: str, net: Message, unknown: dict[str, int]) -> WeightFile:
    """The blobs of a NetParameter by ``layer/index``, with its layers in their order.

    unknown: fields of forks of Caffe that were left out, see `decode`. Where several layers have one name, the last
    one's blobs count, as when Caffe loads the file. Raises ModelFileError for names that no weight can have, and
    ProtobufError for a damaged blob.
    """
    arrays: dict[str, StoredArray] = {}
    layers: dict[str, StoredLayer] = {}
    shared_names = {layer["name"]: [spec["name"] for spec in layer["param"]] for layer in net["layer"]}
    skipped = {name: f"{count:,} of a fork of Caffe" for name, count in unknown.items()}
    for name, kind, blobs in _stored_layers(net):
        if name in layers and blobs:
            skipped[f"{name} (the first of that name)"] = "a later layer has the same name"
            for old in layers.pop(name).weights:
                del arrays[old]
        if blobs:
            _check_name(name, path)
        names = []
        shared = shared_names.get(name, ())
        for index, blob in enumerate(blobs):
            full = f"{name}/{index}"
            arrays[full] = _stored_array(blob, shared[index] if index < len(shared) else "")
            names.append(full)
            if blob.has("diff") or blob.has("double_diff"):
                skipped["diff"] = "gradients of the weights"
        layers.setdefault(name, StoredLayer(name, kind, tuple(names)))
    return WeightFile(path, "Caffe", "caffe", arrays, tuple(layers.values()), config=net, skipped=skipped)


def _stored_layers(net: Message) -> Iterator[tuple[str, str, list[Message]]]:
    """Name, type and blobs of each layer."""
    for layer in net["layer"]:
        yield layer["name"], layer["type"], layer["blobs"]
    for layer in net["layers"]:
        if layer.has("layer"):
            inner = layer["layer"]
            yield inner["name"], inner["type"], inner["blobs"] or layer["blobs"]
        else:
            yield layer["name"], layer_type(layer["type"]), layer["blobs"]


def _stored_array(blob: Message, shared_name: str) -> StoredArray:
    """An array; those of one ``param { name }`` are one array of the net that Caffe has written several times."""
    array = blob_array(blob)
    storage = ("param", shared_name) if shared_name else None
    return StoredArray(array.shape, array.dtype.name, lambda: array, storage, has_padded_shape=has_legacy_shape(blob))


def _check_name(name: str, path: str) -> None:
    for part in name.split("/"):
        if problem := find_name_error(part):
            raise ModelFileError(f"{path}: the layer's name {name[:60]!r} {problem}")


def is_caffemodel_tree(layout: HDF5Layout) -> bool:
    """Whether an HDF5 file is a ``.caffemodel.h5``: datasets ``data/LAYER/0``, ``data/LAYER/1``, ... of floats, and no
    attributes at all."""
    if not layout.datasets or any(layout.attributes.values()):
        return False
    groups: dict[tuple[str, str], set[int]] = {}
    for name, dataset in layout.datasets.items():
        match = _BLOB.fullmatch(name)
        if match is None or dataset.dtype[1] not in "fiu":
            return False
        groups.setdefault((match[1], match[2]), set()).add(int(match[3]))
    return any(kind == "data" for kind, _ in groups)


def file_of_hdf5(layout: HDF5Layout) -> WeightFile:
    """The blobs of a ``.caffemodel.h5`` by ``layer/index``; its layers are in the order of their names, the types of
    which the file does not tell."""
    layers: dict[str, dict[int, str]] = {}
    skipped = {}
    for path in layout.datasets:
        match = _BLOB.fullmatch(path)
        assert match is not None
        if match[1] == "diff":
            skipped["diff"] = "gradients of the weights"
        else:
            layers.setdefault(match[2], {})[int(match[3])] = path
    arrays = {}
    stored_layers = []
    for layer, blobs in layers.items():
        for index in sorted(blobs):
            dataset = layout.datasets[blobs[index]]
            read = partial(_read_number, layout, blobs[index])
            arrays[f"{layer}/{index}"] = StoredArray(dataset.shape, np.dtype(dataset.dtype).name, read)
        stored_layers.append(StoredLayer(layer, "", tuple(f"{layer}/{index}" for index in sorted(blobs))))
    return WeightFile(layout.path, "Caffe HDF5", "caffe", arrays, tuple(stored_layers), skipped=skipped)


def _read_number(layout: HDF5Layout, path: str) -> np.ndarray:
    array = layout.read(path)
    return array if array.dtype.kind == "f" else array.astype(np.float32)
