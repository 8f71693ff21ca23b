"""`Sequential`: a model of layers in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.errors import UsageError
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.layers.base import Layer
from prototorch.model import Model
from prototorch.schema.neutral_arguments import explain_arguments, neutral

__all__ = ["Sequential"]


@explain_arguments({"trainable": neutral(True, hint="set model.trainable = False afterwards")})
def Sequential(layers: Sequence[Any] = (), name: str = "sequential", *, preprocess: Sequence[Layer] = (),
               augment: Sequence[Layer] = ()) -> Model:  # fmt: skip
    """A model of layers in a row; the first item is an `Input`. preprocess, augment: see `Model`. Raises UsageError."""
    if not isinstance(layers, list | tuple):
        raise UsageError(
            f"Sequential: expected a list, [pt.Input(shape), layer, ...], not {layers!r:.80}: put it in brackets, with "
            "the Input first"
        )
    if not layers or not isinstance(layers[0], SymbolicTensor):
        raise UsageError("Sequential: the first item must be pt.Input(shape)")
    value: Any = layers[0]
    for index, layer in enumerate(layers[1:], 1):
        if not isinstance(layer, Layer):
            raise UsageError(f"Sequential: item {index} is {layer!r}, not a layer")
        value = layer(value)
    return Model(layers[0], value, name=name, preprocess=preprocess, augment=augment)
