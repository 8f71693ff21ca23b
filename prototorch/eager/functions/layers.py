"""Layers called on tensors."""

from __future__ import annotations

import importlib
from typing import Any

from prototorch.eager.registry import tensor_method
from prototorch.eager.tensor import Tensor

__all__: list[str] = []


@tensor_method(name="apply_layer")
def _apply_layer(self: Tensor, layer: Any, inputs: tuple[Any, ...]) -> Any:
    """See `prototorch.eager.layer_call.apply_layer`, which is imported with the first layer that is called."""
    return importlib.import_module("prototorch.eager.layer_call").apply_layer(layer, inputs)
