"""The order in which a legacy file of Keras lists layers and weights.

Keras itself pairs them with those of the config by their places; here they are paired by their names. A file in which
the two disagree is refused: one of them is wrong.

Source: `keras.src.legacy.saving.legacy_h5_format`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from prototorch.errors import ModelFileError
from prototorch.interop.counterparts.keras.row import name_in_weight_files, row_of_name
from prototorch.interop.keras.config_json import ConfigLayer

__all__ = ["check_layer_order", "check_weight_order"]


def check_layer_order(where: str, names: Sequence[str], config_layers: Sequence[ConfigLayer]) -> None:
    """Raise ModelFileError where layers with weights are no layers of the config, or in another order than there.

    names: of the layers with weights as the file lists them.
    """
    places = {layer.path: place for place, layer in enumerate(config_layers) if not layer.parent}
    unknown = next((name for name in names if name not in places), None)
    if unknown is not None:
        raise ModelFileError(f"{where}: lists weights of the layer {unknown!r:.80}, which the config does not have")
    for name, following in pairwise(names):
        if places[name] > places[following]:
            raise ModelFileError(
                f"{where}: lists the weights of {name!r:.80} before those of {following!r:.80}; in the config they are "
                "in another order, by which Keras pairs them"
            )


def check_weight_order(where: str, weights: Sequence[tuple[str, str]], config_layers: Sequence[ConfigLayer]) -> None:
    """Raise ModelFileError where the weights in a group are in another order than the model's: first those that are
    trained, each kind layer by layer.

    weights: the path of the layer in the config and the weight's name below it, as the file lists them.
    """
    layers = {layer.path: (place, layer) for place, layer in enumerate(config_layers)}
    frozen = {layer.path for layer in config_layers if layer.config.get("trainable") is False}
    keys: list[tuple[bool, int, int]] = []
    for path, weight in weights:
        place, layer = layers.get(path, (0, None))
        states = {} if layer is None else _states(layer.kind, layer.config)
        if layer is None or weight not in states:
            return  # names that tell nothing
        parts = path.split("/")
        is_frozen = any("/".join(parts[:end]) in frozen for end in range(1, len(parts) + 1))
        keys.append((is_frozen or states[weight], place, list(states).index(weight)))
    for (key, first), (next_key, second) in pairwise(zip(keys, ("/".join(weight) for weight in weights), strict=True)):
        if key > next_key:
            raise ModelFileError(
                f"{where}: lists the weight {first!r:.80} before {second!r:.80}; the model has them in another order, "
                "by which Keras pairs them"
            )


def _states(kind: str, config: Mapping[str, Any]) -> dict[str, bool]:
    """The weights of a layer in Keras' order, and whether each is a state, which no optimizer changes."""
    row = row_of_name(kind) or row_of_name(name_in_weight_files(kind))
    if row is None:
        return {}
    inner = config.get("layer")
    if not row.weights and isinstance(inner, dict) and isinstance(inner.get("config"), dict):
        return _states(str(inner.get("class_name")), inner["config"])
    pairs = [pair for pair in row.weights if pair.is_stored is None or pair.is_stored(config)]
    ways = [part for part in row.parts.values() if part and not any(pair.theirs.startswith(part) for pair in pairs)]
    return {f"{way}{pair.theirs}": pair.is_state for way in ways or [""] for pair in pairs}
