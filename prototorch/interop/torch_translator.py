"""What the translators of layers into PyTorch share.

A *translator* is a function of a `LayerInstance` (a layer with its weights and input shapes) that returns the module
for it; `register_translator` registers it for the layer classes that it translates. A layer with an ``activation``
field gets the activation behind it. A layer without a translator, or with fields that are not translated, raises
`UntranslatableError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prototorch.layers import Layer


class UntranslatableError(Exception):
    """A layer that is not translated; the text is the reason."""


@dataclass(frozen=True)
class LayerInstance:
    """A layer with its weights by their short names, and the shapes of its inputs (batch dimension included)."""

    layer: Any
    weights: Mapping[str, np.ndarray]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return self.shapes[0]

    @property
    def rank(self) -> int:
        """The number of spatial dimensions: those after the batch and the channels."""
        return len(self.shape) - 2


Translator = Callable[[LayerInstance], nn.Module]
_TRANSLATORS: dict[type[Layer], Translator] = {}


def register_translator(*layers: type[Layer]) -> Callable[[Translator], Translator]:
    """Register a translator for these layer classes."""

    def register(function: Translator) -> Translator:
        _TRANSLATORS.update(dict.fromkeys(layers, function))
        return function

    return register


class FunctionModule(nn.Module):
    """A function without weights as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def set_parameter(parameter: Tensor | None, array: np.ndarray | None, otherwise: float = 0.0) -> None:
    """Copy a weight into a parameter; where the layer has no such weight the parameter is fixed at a constant."""
    if parameter is None:
        return
    with torch.no_grad():
        if array is None:
            parameter.fill_(otherwise)
            parameter.requires_grad_(False)
        else:
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))


def translate(site: LayerInstance) -> nn.Module:
    """The module for a layer. Raises Untranslatable."""
    layer = site.layer
    translator = _TRANSLATORS.get(type(layer))
    if translator is None:
        raise UntranslatableError("no translator knows it")
    for name in type(layer).specs():
        if name.endswith(("regularizer", "constraint")) and getattr(layer, name) is not None:
            raise UntranslatableError(f"{name} is not translated")
    module = translator(site)
    if not layer.trainable:
        module.requires_grad_(False)
    activation = getattr(layer, "activation", None)
    if activation is None or hasattr(layer, "recurrent_activation") or hasattr(layer, "return_sequences"):
        return module
    after = translate(LayerInstance(activation, {}, site.shapes))
    return module if isinstance(after, nn.Identity) else nn.Sequential(module, after)
