"""The symbolic tensors that a layer of a model reads and gives: ``model.get_layer("pool5").output``, as in Keras."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from prototorch.errors import UsageError

__all__ = ["layer_symbols", "set_layer_model"]


class SymbolSource(Protocol):
    """A model: it knows the symbolic tensors of its layers."""

    def symbols_of_layer(self, name: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The symbolic tensors that the layer of that name reads, and those that it gives."""


_models: dict[int, tuple[weakref.ref[Any], weakref.ref[SymbolSource], str]] = {}


def set_layer_model(layer: Any, model: SymbolSource, name: str) -> None:
    """Say of which model this object is the layer of that name."""
    key = id(layer)

    def forget(reference: weakref.ref[Any]) -> None:
        if key in _models and _models[key][0] is reference:
            del _models[key]

    _models[key] = weakref.ref(layer, forget), weakref.ref(model), name


def layer_symbols(layer: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The symbolic tensors that a layer of a model reads, and those that it gives. Raises UsageError for another."""
    entry = _models.get(id(layer))
    if entry is None or entry[0]() is not layer:
        raise UsageError(
            f"this {type(layer).__name__} is no layer of a model yet: model.get_layer(name).output is the output of one"
        )
    model = entry[1]()
    if model is None:
        raise UsageError(f"the model of the layer {entry[2]!r} exists no more: keep it in a variable")
    return model.symbols_of_layer(entry[2])
