"""The HDF5 layout of Keras 1 and 2, which Keras 3 still writes to ``.h5``: `layer_names`, and in each layer's group
`weight_names`, which are paths below it. Keras 0 numbers both: ``layer_0/param_0``.

Weights of a model in a model are all in its group; they are given as the layers that their names tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from prototorch.engine.storage.foreign_hdf5 import HDF5Layout
from prototorch.errors import ModelFileError
from prototorch.interop.keras.config_json import ConfigLayer
from prototorch.interop.keras.keras1_weights import converted_layer
from prototorch.interop.keras.stored_arrays import stored_array, text_list
from prototorch.interop.keras.weight_names import renamed_weight
from prototorch.interop.keras.weight_order import check_layer_order, check_weight_order
from prototorch.model.loading.weight_file import StoredArray, StoredLayer

__all__ = ["NamedArrays", "read_legacy_layers", "read_numbered_layers"]

#: the layers of a file and its arrays by the names that the layers give
NamedArrays = tuple[list[StoredLayer], dict[str, StoredArray]]

_HEADS = ("query", "key", "value", "attention_output")
_TOP_LEVEL = "top_level_model_weights"


def read_legacy_layers(
    layout: HDF5Layout, root: str, config_layers: Sequence[ConfigLayer], dims: str, version: int
) -> NamedArrays:
    """The layers in a group of this layout ("" for the file's root). dims: "th" where Keras 1 wrote kernels in Theano's
    order, "th flipped" with Theano's convolution, "tf" where it wrote TensorFlow's, "" for Keras 2 and 3. version: of
    Keras, its first number."""
    names = text_list(layout.attributes.get(root, {}), "layer_names", layout.path)
    if names is None:
        raise ModelFileError(f"{layout.path}: the group {root or '/'} has no attribute layer_names")
    kinds = {layer.path: layer for layer in config_layers if not layer.is_model}
    outer = {layer.path.split("/")[0] for layer in config_layers}
    inner = {layer.path for layer in config_layers if layer.is_model}
    if len(set(names)) != len(names):
        raise ModelFileError(f"{layout.path}: layer_names lists a layer twice")
    layers: list[StoredLayer] = []
    arrays: dict[str, StoredArray] = {}
    names_with_weights: list[str] = []
    if _TOP_LEVEL not in names and f"{root}/{_TOP_LEVEL}".lstrip("/") in layout.attributes:
        names = [*names, _TOP_LEVEL]
    for name in names:
        group = f"{root}/{name}".lstrip("/")
        if group not in layout.attributes:
            raise ModelFileError(f"{layout.path}: layer_names lists the layer {name!r:.80}, which is not there")
        weight_names = text_list(layout.attributes[group], "weight_names", f"{layout.path}: {group}") or []
        if len(set(weight_names)) != len(weight_names):
            raise ModelFileError(f"{layout.path}: {group} lists a weight twice in weight_names")
        if name == _TOP_LEVEL and any(weight.split("/")[0] in outer for weight in weight_names):
            raise ModelFileError(f"{layout.path}: {group} lists weights of layers")
        paths = [f"{group}/{weight}" for weight in weight_names]
        for path in paths:
            if path not in layout.datasets:
                raise ModelFileError(f"{layout.path}: {group} lists the weight {path!r:.120}, which is not there")
        weights_of_layers = _split_layers(name, weight_names, kinds, name in inner)
        if name not in inner or version > 2:  # the versions before had other orders in a model in a model
            owners = {
                full: (one, weight) for one, weights in weights_of_layers.items() for weight, full in weights.items()
            }
            check_weight_order(f"{layout.path}: {group}", [owners[full] for full in weight_names], config_layers)
        for layer, weights in weights_of_layers.items():
            in_file = {weight: stored_array(layout, f"{group}/{full}") for weight, full in weights.items()}
            kind, of_layer = converted_layer(kinds[layer].kind if layer in kinds else "", in_file, dims)
            names_of_layer = []
            for weight, array in of_layer.items():
                names_of_layer.append(_unused_name(f"{layer}/{weight}", arrays))
                arrays[names_of_layer[-1]] = array
            layers.append(StoredLayer(layer, kind, tuple(names_of_layer)))
        if weight_names and name != _TOP_LEVEL:
            names_with_weights.append(name)
    if config_layers and version > 1:
        check_layer_order(f"{layout.path}: {root or '/'}", names_with_weights, config_layers)
    return layers, arrays


def _unused_name(name: str, names: Mapping[str, object]) -> str:
    number = 1
    unused = name
    while unused in names:
        unused, number = f"{name}_{number}", number + 1
    return unused


def _split_layers(
    name: str, weight_names: Sequence[str], kinds: Mapping[str, ConfigLayer], is_model: bool
) -> dict[str, dict[str, str]]:
    """The layers in a group: name -> {weight: its path below the group}, in the file's order."""
    parts = {full: [part.split(":")[0] for part in full.split("/")] for full in weight_names}
    scopes = {full: tuple(names[:-1]) for full, names in parts.items()}
    if not is_model and (name in kinds or len(set(scopes.values())) <= 1 or _is_one_layer(scopes.values())):
        full_names: dict[str, str] = {}
        for full, names in parts.items():
            weight = _weight_name(name, names)
            full_names[_unused_name(weight, full_names)] = full
        return {name: full_names}
    layers: dict[str, dict[str, str]] = {}
    inner_layers = _inner_layers(name, parts.values(), kinds)
    for full, names in parts.items():
        layer, weight = inner_layers[tuple(names)]
        inside = layers.setdefault(layer, {})
        inside[_unused_name(weight, inside)] = full
    return layers


def _is_one_layer(scopes: object) -> bool:
    """Whether the scopes are those within a bidirectional or an attention layer."""
    ends = [[part for part in scope if not part.endswith("_cell")][-1:] for scope in scopes]  # type: ignore[attr-defined]
    last = [end[0] if end else "" for end in ends]
    return all(end in _HEADS for end in last) or all(end.startswith(("forward_", "backward_")) for end in last)


def _weight_name(layer: str, parts: Sequence[str]) -> str:
    """The name of a weight below its layer: its last part, behind the direction or the head that it belongs to."""
    last = _short_name(layer, parts[-1])
    for part in reversed(parts[:-1]):
        if part in _HEADS and len(parts) > 2:
            return f"{part}/{last}"
        for direction in ("forward", "backward"):
            if part.startswith(f"{direction}_") and part != layer:
                return f"{direction}_layer/{last}"
    return last


def _short_name(layer: str, name: str) -> str:
    """``conv_1_W`` of the layer ``conv_1`` in Keras 1: kernel."""
    for prefix in (f"{layer}_", "param_"):
        if name.startswith(prefix) and len(name) > len(prefix):
            return renamed_weight(name.removeprefix(prefix), "")
    return name


def _inner_layers(
    model: str, names: Iterable[Sequence[str]], kinds: Mapping[str, ConfigLayer]
) -> dict[tuple[str, ...], tuple[str, str]]:
    """The layer of each weight of a model in a model, and the weight's name below it, by the parts of its full name.

    The models between the two may be left out there. Of several layers that a name could mean, it is that of the first
    which no longer name means.
    """
    paths: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in kinds:
        inner = path.split("/")
        if inner[0] == model:
            for start in range(1, len(inner)):
                paths[tuple(inner[start:])].append(path)
    scopes: dict[tuple[str, ...], tuple[str, ...]] = {}
    result: dict[tuple[str, ...], tuple[str, str]] = {}
    for parts in map(tuple, names):
        scope = parts[:-1]
        if model in scope:
            scope = scope[scope.index(model) + 1 :]
        tails = (scope[start:end] for end in range(len(scope), 0, -1) for start in range(end))
        tail = next((tail for tail in tails if tail in paths), None)
        if tail is None:
            result[parts] = _unlisted_layer(model, scope, parts)
        else:
            scopes[parts] = tail
    layers: dict[tuple[str, ...], str] = {}
    for tail in sorted(dict.fromkeys(scopes.values()), key=len, reverse=True):
        used = set(layers.values())
        layers[tail] = next((path for path in paths[tail] if path not in used), paths[tail][0])
    return result | {parts: (layers[tail], _weight_name(tail[-1], parts)) for parts, tail in scopes.items()}


def _unlisted_layer(model: str, scope: Sequence[str], parts: Sequence[str]) -> tuple[str, str]:
    """By the name alone, without a config that lists the layer."""
    outer_parts = [part for part in scope if not part.endswith("_cell")]
    while outer_parts and (outer_parts[-1] in _HEADS or outer_parts[-1].startswith(("forward_", "backward_"))):
        outer_parts.pop()
    return "/".join([model, *outer_parts]), _weight_name(outer_parts[-1] if outer_parts else model, parts)


def read_numbered_layers(layout: HDF5Layout) -> NamedArrays:
    """The layers of a file of Keras 0: ``layer_3/param_0``."""
    layers: list[StoredLayer] = []
    arrays: dict[str, StoredArray] = {}
    total = layout.attributes.get("", {}).get("nb_layers")
    if not isinstance(total, int) or not 0 <= total <= len(layout.attributes):
        raise ModelFileError(f"{layout.path}: nb_layers is {total!r:.40}, but there are not as many layers")
    for number in range(total):
        name = f"layer_{number}"
        count = layout.attributes.get(name, {}).get("nb_params", 0)
        if not isinstance(count, int) or not 0 <= count <= len(layout.datasets):
            raise ModelFileError(f"{layout.path}: {name}: nb_params is {count!r:.40}, but there are not as many arrays")
        paths = [f"{name}/param_{k}" for k in range(count)]
        missing = next((path for path in paths if path not in layout.datasets), None)
        if missing is not None:
            raise ModelFileError(f"{layout.path}: {missing} is not there")
        if not paths:
            continue
        in_file = {str(k): stored_array(layout, path) for k, path in enumerate(paths)}
        kind, of_layer = converted_layer("", in_file, "th flipped")
        arrays |= {f"{name}/{weight}": array for weight, array in of_layer.items()}
        layers.append(StoredLayer(name, kind, tuple(f"{name}/{weight}" for weight in of_layer)))
    return layers, arrays
