"""A file of Caffe as the nets of ours name it: names of layers, and the Scale behind a BatchNorm, which is one layer
with it (BatchNormalization)."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from math import prod

from prototorch.caffe.text.message import Message
from prototorch.model.loading.weight_file import StoredLayer, WeightFile
from prototorch.schema.names import to_name

__all__ = ["SCALE", "join_and_rename_layers", "join_scale_layers", "rename_layers"]

#: what the blobs of a Scale layer are called below the BatchNorm that it follows
SCALE = "scale"
#: how the name of a BatchNorm becomes that of its Scale, for files that do not tell the wiring (HDF5)
_NAMES = (("bn", "scale"), ("BN", "Scale"), ("BatchNorm", "Scale"), ("batchnorm", "scale"), ("norm", "scale"))


def join_scale_layers(file: WeightFile, layers: Container[str]) -> WeightFile:
    """The file with the blobs of each Scale layer under the name of the BatchNorm that it follows (``bn1/scale/0``).

    layers: names of layers with weights in the net; a Scale layer that the net has itself stays as it is.
    """
    pairs = [pair for pair in _pairs(file) if pair[1].name not in layers]
    new_names = {
        name: f"{norm.name}/{SCALE}/{name.rpartition('/')[2]}" for norm, scale in pairs for name in scale.weights
    }
    if not new_names or set(new_names.values()) & file.arrays.keys():
        return file
    joined_weights = {
        norm.name: norm.weights + tuple(new_names[name] for name in scale.weights) for norm, scale in pairs
    }
    scale_names = {scale.name for _, scale in pairs}
    stored_layers = [
        replace(layer, weights=joined_weights.get(layer.name, layer.weights))
        for layer in file.layers
        if layer.name not in scale_names
    ]
    arrays = {new_names.get(name, name): array for name, array in file.arrays.items()}
    return replace(file, arrays=arrays, layers=tuple(stored_layers))


def rename_layers(file: WeightFile, layers: Container[str]) -> WeightFile:
    """The file with the names that nets of ours can have, where a layer of the net has such a name (``conv 1`` is
    ``conv_1``)."""
    names = {layer.name for layer in file.layers}
    new_names = {name: to_name(name) for name in names if name not in layers}
    new_names = {old: new for old, new in new_names.items() if new in layers and new not in names}
    if len(set(new_names.values())) < len(new_names) or not new_names:
        return file
    arrays, stored_layers = dict(file.arrays), []
    for layer in file.layers:
        new = new_names.get(layer.name, layer.name)
        weights = tuple(new + name.removeprefix(layer.name) for name in layer.weights)
        stored_layers.append(StoredLayer(new, layer.kind, weights))
        if new != layer.name:
            arrays.update(zip(weights, (arrays.pop(name) for name in layer.weights), strict=True))
    return replace(file, arrays=arrays, layers=tuple(stored_layers))


def _pairs(file: WeightFile) -> Iterator[tuple[StoredLayer, StoredLayer]]:
    by_name = {layer.name: layer for layer in file.layers}
    if isinstance(file.config, Message):
        for names in _wired_pairs(file.config):
            if all(name in by_name for name in names):
                yield by_name[names[0]], by_name[names[1]]
        return
    for layer in file.layers:
        scale = _scale_by_name(file, layer, by_name)
        if scale is not None:
            yield layer, scale


def _wired_pairs(net: Message) -> Iterator[tuple[str, str]]:
    """Names of BatchNorms, and of the Scale layers with blobs of their own that read them."""
    makers: dict[str, Message] = {}
    for layer in net["layer"]:
        bottoms = layer["bottom"]
        maker = makers.get(bottoms[0]) if len(bottoms) == 1 else None
        if layer["type"] == "Scale" and maker is not None and maker["type"] == "BatchNorm" and layer["blobs"]:
            yield maker["name"], layer["name"]
        makers.update(dict.fromkeys(layer["top"], layer))


def _scale_by_name(file: WeightFile, norm: StoredLayer, by_name: dict[str, StoredLayer]) -> StoredLayer | None:
    """The Scale layer of a BatchNorm by its name and the shapes of its blobs."""
    shapes = [file.arrays[name].shape for name in norm.weights]
    if len(shapes) != 3 or shapes[0] != shapes[1] or prod(shapes[2]) != 1:
        return None
    names = [norm.name.replace(old, new) for old, new in _NAMES if old in norm.name]
    for name in (*names, f"{norm.name}_scale", f"{norm.name}/scale"):
        scale = by_name.get(name)
        fits = scale is not None and [file.arrays[blob].shape for blob in scale.weights] in (shapes[:1], shapes[:2])
        if fits and name != norm.name:
            return scale
    return None


def join_and_rename_layers(file: WeightFile, layers: Container[str]) -> WeightFile:
    """`join_scale_layers`, then `rename_layers`."""
    return rename_layers(join_scale_layers(file, layers), layers)
