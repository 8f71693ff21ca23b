"""The names of a Keras layer's own weights, in the order in which Keras keeps them.

Its files of weights number them; what each number is follows from the layer's class, its config and how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from prototorch.interop.counterparts.keras.row import keras_rows, name_in_weight_files, row_of_name
from prototorch.interop.counterparts.row import WeightPair

__all__ = [
    "ACTIVATION_PARTS",
    "class_of_key",
    "key_of_class",
    "own_weight_names",
    "part_weight_names",
    "renamed_weight",
]

#: what the names of the weights of activations within a layer begin with
ACTIVATION_PARTS = ("activation/", "recurrent_activation/")

_KERAS_1_NAMES = {
    "W": "kernel", "b": "bias", "U": "recurrent_kernel", "running_mean": "moving_mean",
    "running_std": "moving_variance", "alphas": "alpha",
}  # fmt: skip


def key_of_class(kind: str) -> str:
    """What Keras makes of a class's name for names and files: ``PReLU``: p_re_lu."""
    row = row_of_name(kind)
    kind = (row.name_in_files if row is not None else "") or kind
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()


@cache
def _classes() -> dict[str, str]:
    rows = [row for row in keras_rows() if row.weights or row.parts]
    return {key_of_class(name): name for row in rows for name in (*row.classes(), *row.names_in_weight_files)}


def class_of_key(key: str) -> str:
    """The class of an automatic name (``conv2d_3``: Conv2D); "" for another name."""
    return _classes().get(re.sub(r"_\d+$", "", key), "")


def own_weight_names(kind: str, count: int, config: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The names of the ``count`` weights of a layer of a class; their numbers where nothing tells which they are."""
    row = row_of_name(kind) or row_of_name(name_in_weight_files(kind))
    return _names(row.part_weights("") if row is not None else [], count, config)


def part_weight_names(prefix: str, count: int, config: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The names of the weights that an object within a layer holds, without their beginning: that of the object.

    config: that of the layer, as in `own_weight_names`.
    """
    if prefix in ACTIVATION_PARTS:
        return own_weight_names("PReLU", count, config)
    return _names(next((w for row in keras_rows() if (w := row.part_weights(prefix))), []), count, config)


def _names(weights: Sequence[WeightPair], count: int, config: Mapping[str, Any] | None) -> tuple[str, ...]:
    if config is not None:
        weights = [weight for weight in weights if weight.is_stored is None or weight.is_stored(config)]
    elif len(weights) != count:
        weights = [weight for weight in weights if weight.is_stored is None]
    return tuple(weight.theirs for weight in weights) if len(weights) == count else tuple(map(str, range(count)))


def renamed_weight(name: str, kind: str) -> str:
    """The name that Keras 2 and 3 have for a weight of Keras 1 (``W``: kernel)."""
    if kind == "Embedding" and name == "W":
        return "embeddings"
    return _KERAS_1_NAMES.get(name, name)
