"""What the translators of layers into PyTorch share.

A *translator* is a function of a `LayerInstance` (a layer at its place) that gives the module for it; it is entered
for the
layer classes it knows with `@translates`. What has an ``activation`` field gets the activation behind it. A layer that
no translator knows, or whose fields ask for what is not translated, raises `UntranslatableError`.
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
    """A layer at its place: its weights by their short names, and the shapes of its inputs (the batch's included)."""

    layer: Any
    weights: Mapping[str, np.ndarray]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return self.shapes[0]

    @property
    def rank(self) -> int:
        """How many dimensions there are after the batch's and the channels'."""
        return len(self.shape) - 2


Translator = Callable[[LayerInstance], nn.Module]
_TRANSLATORS: dict[type[Layer], Translator] = {}


def register_translator(*layers: type[Layer]) -> Callable[[Translator], Translator]:
    """Enter a translator for these layers."""

    def enter(function: Translator) -> Translator:
        _TRANSLATORS.update(dict.fromkeys(layers, function))
        return function

    return enter


class FunctionModule(nn.Module):
    """A function without weights as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def set_parameter(parameter: Tensor | None, array: np.ndarray | None, otherwise: float = 0.0) -> None:
    """Give a parameter the elements of a weight; where the layer has no such weight it is fixed at a number."""
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
    made = translator(site)
    if not layer.trainable:
        made.requires_grad_(False)
    activation = getattr(layer, "activation", None)
    if activation is None or hasattr(layer, "recurrent_activation") or hasattr(layer, "return_sequences"):
        return made
    after = translate(LayerInstance(activation, {}, site.shapes))
    return made if isinstance(after, nn.Identity) else nn.Sequential(made, after)
