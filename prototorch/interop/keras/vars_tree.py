"""The HDF5 layout of Keras 3's ``.weights.h5``: a tree of objects, each with a group ``vars`` of numbered arrays.

A layer of a Sequential or functional model is at ``layers/<its class>_<number>``, one of a subclassed model at the
path of its attributes. The attribute ``name`` is the layer's name since Keras 3.6.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.errors import ModelFileError
from prototorch.interop.counterparts.keras.row import keras_rows, row_of_name
from prototorch.interop.keras.config_json import ConfigLayer
from prototorch.interop.keras.stored_arrays import stored_array
from prototorch.interop.keras.weight_names import (
    ACTIVATION_PARTS,
    class_of_key,
    key_of_class,
    own_weight_names,
    part_weight_names,
)
from prototorch.model.loading.weight_file import StoredArray, StoredLayer, WeightFile

__all__ = ["VarsTree", "check_groups", "groups_of_layers", "parts_of_weight", "read_vars_tree"]

CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
_OPTIMIZERS = ("optimizer", "_optimizer")


@dataclass(frozen=True)
class VarsTree:
    """The layers of a file of this layout. has_names: whether it tells the layers' names; else they are its keys.

    skipped: groups that hold no weights, with the reason.
    """

    layers: list[StoredLayer]
    arrays: dict[str, StoredArray]
    has_names: bool
    skipped: dict[str, str]


def read_vars_tree(layout: HDF5Layout, config_layers: Sequence[ConfigLayer] | None = None) -> VarsTree:
    """The layers of a file in the order of the config's, else in that of its keys."""
    groups: dict[str, dict[int, str]] = defaultdict(dict)
    skipped: dict[str, str] = {}
    for path in layout.datasets:
        head, _, last = path.rpartition("/")
        owner, _, vars_group = f"/{head}".rpartition("/")
        if vars_group != "vars" or owner.endswith("/vars") or not re.fullmatch(r"[0-9]{1,9}", last):
            skipped[path] = "an array outside the groups vars of Keras' layers"
        elif path.split("/")[0] in _OPTIMIZERS:
            skipped[path.split("/")[0]] = "the optimizer's state"
        elif "seed_generator" in path.split("/"):
            skipped[owner.strip("/")] = "the state of a generator of random numbers"
        else:
            groups[owner.strip("/")][int(last)] = path
    for path in layout.attributes:
        if "vars" in path.strip("/").split("/")[:-1] and path not in layout.datasets:
            raise ModelFileError(f"{layout.path}: {path!r:.80} is a group among the arrays of a layer")
    names = {
        path.removesuffix("vars").strip("/"): str(attributes["name"])
        for path, attributes in layout.attributes.items()
        if path.split("/")[-1] == "vars" and isinstance(attributes.get("name"), str)
    }
    owners: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for group in sorted(groups, key=_natural_order):
        numbers = groups[group]
        if sorted(numbers) != list(range(len(numbers))):
            raise ModelFileError(f"{layout.path}: {group}/vars: the arrays {sorted(numbers)!s:.80} leave numbers out")
        layer, part = _split_parts(group)
        owners[layer][part] = [numbers[k] for k in range(len(numbers))]
    configs = _keys_of_config(config_layers) if config_layers else {}
    if names and not configs:
        _check_keys(layout.path, owners, names)
    order = {key: number for number, key in enumerate(configs)}
    layers: list[StoredLayer] = []
    arrays: dict[str, StoredArray] = {}
    part_order = _part_order()
    for key in sorted(owners, key=lambda k: (order.get(_container_key(k), len(order)), _natural_order(k))):
        config = configs.get(_container_key(key))
        kind = config.kind if config is not None else _kind(key, names.get(key, ""))
        name = config.path if config is not None else _layer_name(key, names)
        weights = [
            (f"{name or 'model'}/{part}{weight}", path)
            for part, paths in sorted(owners[key].items(), key=lambda item: part_order.index(item[0]))
            for weight, path in zip(
                _weight_names(kind, part, len(paths), config, names.get(f"{key}/layer", "")), paths, strict=True
            )
        ]
        if any(weight in arrays for weight, _ in weights):
            raise ModelFileError(f"{layout.path}: two layers have the name {name!r:.80}")
        arrays |= {weight: stored_array(layout, path) for weight, path in weights}
        layers.append(StoredLayer(name or "model", kind, tuple(weight for weight, _ in weights), key))
    return VarsTree(layers, arrays, bool(configs) or bool(names) or not _in_container(owners), skipped)


@cache
def _parts() -> dict[str, str]:
    """Attributes of layers that are objects with weights of their own -> what their weights' names begin with."""
    parts = {attribute: prefix for row in keras_rows() for attribute, prefix in row.parts.items()}
    return parts | {prefix.rstrip("/"): prefix for prefix in ACTIVATION_PARTS}


def _part_order() -> list[str]:
    """In which order the parts of a layer have their weights; those of the layer itself come first."""
    return list(dict.fromkeys(["", *_parts().values()]))


def _natural_order(path: str) -> list[tuple[str, int]]:
    parts = (re.fullmatch(r"(.*?)_?([0-9]{0,9})", part, re.DOTALL) for part in path.split("/"))
    return [(m[1], int(m[2] or 0)) if m else ("", 0) for m in parts]


def _container_key(key: str) -> str:
    return key.replace(CONTAINERS[1], CONTAINERS[0])


def _in_container(owners: Mapping[str, object]) -> bool:
    return any(key.split("/")[0] in CONTAINERS for key in owners)


def _split_parts(group: str) -> tuple[str, str]:
    """The layer's path, and what the names of these weights of it begin with."""
    parts, prefix = group.split("/"), ""
    prefixes = _parts()
    while len(parts) > 1 and parts[-1] in prefixes and not (len(parts) > 1 and parts[-2] in CONTAINERS):
        prefix = prefixes[parts.pop()] + prefix
    return "/".join(parts), prefix if prefix in _part_order() else prefix.split("/")[0] + "/"


def _check_keys(where: str, keys: Iterable[str], names: Mapping[str, str]) -> None:
    """Raise ModelFileError for a layer's group in a list of layers that Keras would not read: its class is none."""
    for key in keys:
        container, _, last = key.rpartition("/")
        is_in_list = container.rpartition("/")[2] in CONTAINERS
        if is_in_list and not class_of_key(last) and class_of_key(names.get(key, "")):
            raise ModelFileError(f"{where}: the weights of {names[key]!r:.80} are in {key[:80]}, of no class of Keras")


def _layer_name(key: str, names: Mapping[str, str]) -> str:
    """The layer's name: that of the file's, behind those of the models that it is in; an attribute's path as it is."""
    parts = key.split("/")
    if parts[0] not in CONTAINERS:
        return "/".join(part for part in parts if part not in CONTAINERS)
    names_of_parts = []
    for end in range(1, len(parts) + 1):
        if parts[end - 1] not in CONTAINERS:
            names_of_parts.append(names.get("/".join(parts[:end]), parts[end - 1]))
    return "/".join(names_of_parts)


def _kind(key: str, name: str) -> str:
    last = key.split("/")[-1]
    return class_of_key(last) or class_of_key(name)


def _weight_names(kind: str, part: str, count: int, config: ConfigLayer | None, inner_name: str) -> tuple[str, ...]:
    settings = None if config is None else config.config
    if part in ("forward_layer/", "backward_layer/", "layer/"):
        inner = settings.get("layer") if settings is not None else None
        if isinstance(inner, dict) and isinstance(inner.get("config"), dict):
            return own_weight_names(str(inner.get("class_name")), count, inner["config"])
        return own_weight_names("Bidirectional" if part != "layer/" else class_of_key(inner_name), count)
    if part:
        return part_weight_names(part, count, settings)
    return own_weight_names(kind, count, settings)


def groups_of_layers(config_layers: Sequence[ConfigLayer]) -> dict[str, str]:
    """The group of each layer of a config, by its path."""
    return {layer.path: key for key, layer in _keys_of_config(config_layers).items()}


def check_groups(file: WeightFile, config_layers: Sequence[ConfigLayer]) -> None:
    """Raise ModelFileError where the weights of a layer of the config are in another group than Keras reads them from:
    they have the layer's name, and may be those of another model."""
    groups = groups_of_layers(config_layers)
    for layer in file.layers:
        group = groups.get(layer.name)
        if layer.weights and group is not None and _container_key(layer.group) != group:
            raise ModelFileError(
                f"{file.path}: the weights of {layer.name!r:.80} are in {layer.group[:80]}; Keras reads {group[:80]}"
            )


def _keys_of_config(config_layers: Sequence[ConfigLayer]) -> dict[str, ConfigLayer]:
    """The key of each layer in the file: its class with a number in the model that it is in."""
    keys: dict[str, ConfigLayer] = {}
    containers = {"": "layers"}
    used: dict[str, int] = defaultdict(int)
    for layer in config_layers:
        name = f"{containers[layer.parent]}/{key_of_class(layer.kind)}"
        number, used[name] = used[name], used[name] + 1
        key = f"{name}_{number}" if number else name
        keys[key] = layer
        if layer.is_model:
            containers[layer.path] = f"{key}/layers"
    return keys


def parts_of_weight(kind: str, weight: str) -> str:
    """The path of the object within a layer that holds one of its weights, with a "/" at the end: ``cell/``."""
    head = weight.rpartition("/")[0]
    row = row_of_name(kind)
    holders = {prefix: attribute for attribute, prefix in row.parts.items()} if row is not None else {}
    if not head and len(holders) == 1:  # of a legacy file, which does not name the only object with weights
        head = next(iter(holders)).rstrip("/")
    outer = holders.get(f"{head}/", head) if head else ""
    return "".join(f"{name}/" for name in (outer, holders.get("", "")) if name)
