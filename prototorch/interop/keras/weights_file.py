"""A `WeightFile` of an HDF5 file of Keras, of whichever version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.engine.storage.tree_paths import find_path_error
from prototorch.errors import ModelFileError
from prototorch.interop.keras.config_json import (
    ConfigLayer,
    data_format_of,
    flatten_order_of,
    iter_config_layers,
    parse_config,
)
from prototorch.interop.keras.keras1_weights import kernel_order
from prototorch.interop.keras.legacy_weights import read_legacy_layers, read_numbered_layers
from prototorch.interop.keras.vars_tree import CONTAINERS, groups_of_layers, read_vars_tree
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["is_keras_layout", "keras_weight_file"]

_WHOLE_MODEL = "model_weights"


def is_keras_layout(layout: HDF5Layout) -> bool:
    """Whether this is an HDF5 file of Keras."""
    root = layout.attributes.get("", {})
    if {"layer_names", "layer_names0", "nb_layers", "model_config"} & root.keys():
        return True
    return any(path.split("/")[0] in CONTAINERS for path in layout.attributes) or any(
        path.split("/")[-2:-1] == ["vars"] for path in layout.datasets
    )


def keras_weight_file(layout: HDF5Layout, config: Mapping[str, Any] | None = None) -> WeightFile:
    """The weights of a file. config: the model's, where it is not in the file itself.

    Its ``metadata``: keras_version, backend and training_config (a JSON text) as they are there; ``data_format`` and
    ``flatten``, the orders of images and of what Flatten makes of them, where the config or an attribute tells them;
    ``names``: "class order" where layers have no names but their classes' with a number, in the order of the model's
    layers.
    Raises ModelFileError.
    """
    weights = _open_layout(layout, config)
    if not weights.arrays:
        if weights.config is None:
            raise ModelFileError(f"{layout.path}: a file of Keras without weights")
        unlisted = next((p for p in layout.datasets if not p.lstrip("/").startswith("optimizer")), None)
        if unlisted is not None:
            raise ModelFileError(f"{layout.path}: it lists no layer with weights, but holds {unlisted[:200]!r}")
    for name in weights.arrays:
        problem = find_path_error(name)
        if problem:
            raise ModelFileError(f"{layout.path}: the weight's name {name!r:.80} {problem}")
    return weights


def _open_layout(layout: HDF5Layout, config: Mapping[str, Any] | None) -> WeightFile:
    root = layout.attributes.get("", {})
    if config is None and isinstance(root.get("model_config"), str):
        config = parse_config(str(root["model_config"]), f"{layout.path}: model_config")
    layers_of_config = list(iter_config_layers(config, layout.path)) if config is not None else []
    metadata: dict[str, str] = {}
    if isinstance(root.get("training_config"), str):
        metadata["training_config"] = str(root["training_config"])
    if config is not None:
        metadata["data_format"] = data_format_of(layers_of_config)
        metadata["flatten"] = flatten_order_of(layers_of_config, metadata["data_format"])
    elif root.get("data_format") in ("channels_last", "channels_first"):  # in files that prototorch wrote
        metadata["data_format"] = metadata["flatten"] = str(root["data_format"])
    if any(path.split("/")[-2:-1] == ["vars"] for path in layout.datasets):
        tree = read_vars_tree(layout, layers_of_config)
        if not tree.has_names:
            metadata["names"] = "class order"
        return WeightFile(
            layout.path, "Keras 3 weights", "keras", tree.arrays, tuple(tree.layers), config, metadata, tree.skipped
        )
    if "nb_layers" in root:
        layers, arrays = read_numbered_layers(layout)
        return WeightFile(layout.path, "Keras 0 weights", "keras", arrays, tuple(layers), config, metadata)
    group = "" if "layer_names" in root or "layer_names0" in root else _WHOLE_MODEL
    attributes = layout.attributes.get(group, {})
    if not {"layer_names", "layer_names0"} & attributes.keys():
        raise ModelFileError(f"{layout.path}: no weights of Keras: neither layer_names nor groups called vars")
    for name in ("keras_version", "backend"):
        value = attributes.get(name, root.get(name))
        if isinstance(value, str):
            metadata[name] = value
    major = metadata.get("keras_version", "1").split(".")[0]
    dims = _keras1_dims(layout, group, layers_of_config, metadata) if major == "1" else ""
    version = int(major) if re.fullmatch("[0-9]{1,3}", major) else 1
    layers, arrays = read_legacy_layers(layout, group, layers_of_config, dims, version)
    groups = groups_of_layers(layers_of_config)
    layers = [replace(layer, group=groups.get(layer.name, "")) for layer in layers]
    skipped = {}
    if any(path.startswith("optimizer_weights/") for path in layout.datasets):
        skipped["optimizer_weights"] = "the optimizer's state"
    name = f"Keras {major} {'model' if group else 'weights'}"
    return WeightFile(layout.path, name, "keras", arrays, tuple(layers), config, metadata, skipped)


def _keras1_dims(layout: HDF5Layout, group: str, layers: list[ConfigLayer], metadata: dict[str, str]) -> str:
    """The order of a Keras 1 file's kernels (see `read_legacy_layers`); into the metadata where only they tell it."""
    if layers:
        dims = "th" if metadata["data_format"] == "channels_first" else "tf"
    else:
        weights = [path for path in layout.datasets if path.startswith(group)]
        dims = kernel_order([layout.datasets[p].shape for p in weights if len(layout.datasets[p].shape) == 4])
        metadata["data_format"] = metadata["flatten"] = "channels_first" if dims == "th" else "channels_last"
    return "th flipped" if dims == "th" and metadata.get("backend") == "theano" else dims
