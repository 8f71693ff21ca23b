"""What Keras' files hold: arrays by their paths in HDF5, and the attributes of its groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.errors import ModelFileError
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.interop.keras.layouts import LAYOUTS
from prototorch.interop.keras.model_layers import KerasLayer
from prototorch.interop.keras.vars_tree import parts_of_weight
from prototorch.interop.keras.weight_names import key_of_class
from prototorch.model.foreign_files import ModelToWrite
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.model.loading.read.source import ReadWeights
from prototorch.model.loading.weight_file import StoredLayer, WeightFile

__all__ = ["KERAS_VERSION", "KerasWeights", "TreeContents", "legacy_contents", "vars_contents", "vars_contents_like"]

KERAS_VERSION = "3.15.1"  # whose files these are


@dataclass
class TreeContents:
    """The content of an HDF5 file: arrays and attributes by path, groups without either as well."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)


class KerasWeights:
    """The weights of a net as Keras' layers have them.

    data_format: the order of the axes of images in the model that they are for, "channels_first" or "channels_last"
    (Keras' default).
    """

    def __init__(self, net: Net, weights: Mapping[str, np.ndarray], data_format: str):
        self.weights, self.data_format = weights, data_format
        shapes = {name: tuple(array.shape) for name, array in weights.items()}
        metadata = {"data_format": data_format, "flatten": data_format}
        self.of_nodes = LAYOUTS.net_layouts(net, shapes, metadata)

    def of_layer(self, layer: KerasLayer) -> dict[str, np.ndarray]:
        """A layer's arrays by Keras' names for them, in its order. Raises NotExpressibleError."""
        if layer.node is None:
            return {}
        prefix, node = f"{layer.node.weights_key}/", layer.node
        if node.layer.share:
            raise NotExpressibleError("single weights of it are those of another layer (share)")
        own = {name.removeprefix(prefix): array for name, array in self.weights.items() if name.startswith(prefix)}
        layouts = self.of_nodes.get(node.name) or LAYOUTS.layouts(node.layer, {n: a.shape for n, a in own.items()})
        arrays: dict[str, np.ndarray] = {}
        for layout in layouts:
            names = layout.theirs
            if (names[0].partition("/")[0] == "activation") != layer.is_activation:
                continue
            if layer.is_activation:
                names = tuple(name.removeprefix("activation/") for name in names)
            arrays_of_layout = layout.transform.to_theirs(tuple(own[name] for name in layout.ours))
            arrays |= dict(zip(names, arrays_of_layout, strict=True))
        return arrays


def vars_contents(layers: Iterable[KerasLayer], weights: KerasWeights, name: str) -> TreeContents:
    """The content of a ``.weights.h5`` for layers in Keras' order."""
    contents = _vars_root(weights.data_format, name)
    counts: dict[str, int] = defaultdict(int)
    for layer in layers:
        key = key_of_class(layer.kind)
        number, counts[key] = counts[key], counts[key] + 1
        group = f"layers/{key}_{number}" if number else f"layers/{key}"
        _add_vars(contents, group, layer.name, layer.kind, weights.of_layer(layer))
    return contents


def _vars_root(data_format: str, name: str) -> TreeContents:
    return TreeContents(attributes={"": {"data_format": data_format}, "vars": {"name": name}})


def _add_vars(contents: TreeContents, group: str, name: str, kind: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Add a layer's arrays, by Keras' names for them, in its order."""
    contents.attributes[f"{group}/vars"] = {"name": name}
    numbers: dict[str, int] = defaultdict(int)
    for weight, array in arrays.items():
        below = parts_of_weight(kind, weight)
        place = f"{group}/{below}vars"
        contents.attributes.setdefault(place, {"name": below.strip("/").split("/")[-1] or name})
        contents.arrays[f"{place}/{numbers[place]}"] = array
        numbers[place] += 1


def vars_contents_like(file: WeightFile, model: ModelToWrite, data_format: str | None = None) -> TreeContents:
    """The content of a ``.weights.h5`` for the model of Keras that a file is of, with the weights of a model of ours:
    those that `Model.load_weights` would read from the file, in its layers and in the models that these are in.

    data_format: the order of the axes of that model's images, where the file does not tell it; default "channels_last".

    Raises WeightsError where these are not the same weights, ModelFileError where the file tells no place of a layer.
    """
    specs = trace_net(model.net, 1).weights
    match = ReadWeights(file, None, "keras", data_format).names(model.net, specs).lay_out()
    match.check()
    file = match.file
    arrays: dict[str, np.ndarray] = {}
    for one in match.assignments:
        own = tuple(model.weights[name] for name in one.ours)
        arrays |= dict(zip(one.theirs, one.transform.to_theirs(own), strict=True))
    contents = _vars_root(file.metadata.get("data_format", "channels_last"), model.net.name or "model")
    for layer in file.layers:
        if not layer.weights:
            continue
        if not layer.group:
            raise ModelFileError(f"{file.path}: does not tell where the layer {layer.name!r:.80} is in the model")
        _name_models(contents, layer)
        in_file = {name.removeprefix(f"{layer.name}/"): arrays.get(name) for name in layer.weights}
        own_arrays = {name: file[f"{layer.name}/{name}"] if array is None else array for name, array in in_file.items()}
        _add_vars(contents, layer.group, layer.name.rpartition("/")[2], layer.kind, own_arrays)
    return contents


def _name_models(contents: TreeContents, layer: StoredLayer) -> None:
    """Enter the names of the models that a layer is in."""
    parts, names = layer.group.split("/"), layer.name.split("/")
    ends = [end for end, part in enumerate(parts, 1) if part != "layers"]
    if len(ends) == len(names):
        for end, name in zip(ends, names, strict=True):
            contents.attributes.setdefault(f"{'/'.join(parts[:end])}/vars", {"name": name})


def legacy_contents(layers: Iterable[KerasLayer], weights: KerasWeights, root: str) -> TreeContents:
    """The content of a legacy ``.h5`` below a group ("" for the file's root) for layers in Keras' order."""
    contents = TreeContents()
    prefix = f"{root}/" if root else ""
    names = []
    for layer in layers:
        names.append(layer.name)
        arrays = weights.of_layer(layer)
        paths = [f"{layer.name}/{weight}" for weight in arrays]
        contents.attributes[f"{prefix}{layer.name}"] = _split_lists("weight_names", paths)
        contents.arrays |= {f"{prefix}{layer.name}/{path}": a for path, a in zip(paths, arrays.values(), strict=True)}
    contents.attributes[f"{prefix}top_level_model_weights"] = {"weight_names": []}
    contents.attributes[root] = _split_lists("layer_names", names) | {
        "backend": "torch",
        "keras_version": KERAS_VERSION,
    }
    return contents


def _split_lists(name: str, items: list[str]) -> dict[str, list[str]]:
    """The attribute, in pieces below HDF5's limit of 64 KiB for one."""
    longest = max((len(item.encode()) for item in items), default=0)
    count = max(1, 60_000 // max(longest, 1))
    if len(items) <= count:
        return {name: items}
    return {f"{name}{k}": items[k * count : (k + 1) * count] for k in range(-(-len(items) // count))}
