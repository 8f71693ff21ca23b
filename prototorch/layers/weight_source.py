"""Where the weights of a layer object are: layers of a model bring them along when they are used again, as in Keras.

A model enters its layers here; another model that is made of one of them, or an eager call of it, finds its weights.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

__all__ = ["WeightSource", "set_weight_source", "weight_source"]


class WeightSource(NamedTuple):
    """The arrays by name of the model that has the weights of a layer (see `runtime.variables.Variables`), and what
    their names begin with."""

    variables: Any
    prefix: str


_sources: dict[int, tuple[weakref.ref[Any], WeightSource]] = {}


def weight_source(layer: Any) -> WeightSource | None:
    """Where the weights of this layer object are; None for one that belongs to no model."""
    entry = _sources.get(id(layer))
    return entry[1] if entry is not None and entry[0]() is layer else None


def set_weight_source(layer: Any, source: WeightSource) -> None:
    """Say where the weights of this layer object are."""
    key = id(layer)

    def forget(reference: weakref.ref[Any]) -> None:
        if key in _sources and _sources[key][0] is reference:
            del _sources[key]

    _sources[key] = weakref.ref(layer, forget), source
