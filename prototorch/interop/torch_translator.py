"""What the translators of layers into PyTorch share.

A *translator* is a function of a `LayerInstance` (a layer with its weights and input shapes) that returns the module
for it; `register_translator` registers it for the layer classes that it translates. A layer with an ``activation``
field gets the activation behind it. A layer without a translator, or with fields that are not translated, raises
`UntranslatableError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prototorch.interop.layouts import NotExpressibleError, WeightLayout
from prototorch.interop.torch.layouts import LAYOUTS
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

    def load(self, module: nn.Module, layouts: Sequence[WeightLayout] | None = None) -> nn.Module:
        """Copy the weights into a module, and return it. layouts: where they are in it; by default as in files.

        Elements that our layer does not have (a second bias, a shift of 0) are not trained.
        """
        own = {name: w for name, w in self.weights.items() if not name.startswith("activation/")}
        try:
            layouts = layouts or LAYOUTS.layouts(self.layer, {name: w.shape for name, w in own.items()})
        except NotExpressibleError as reason:
            raise UntranslatableError(str(reason)) from None
        for layout in layouts:
            arrays = [own[name] for name in layout.ours]
            theirs = layout.transform.to_theirs(tuple(arrays))
            surplus = sum(a.size for a in theirs) - sum(a.size for a in arrays)
            for name, array in reversed(list(zip(layout.theirs, theirs, strict=True))):
                _assign(module, name, array, fixed=surplus > 0)
                surplus -= array.size
        return module


def _assign(module: nn.Module, name: str, array: np.ndarray, fixed: bool) -> None:
    parent, _, last = name.rpartition(".")
    tensor: Tensor = getattr(module.get_submodule(parent), last)
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.array(array)))
    if fixed and isinstance(tensor, nn.Parameter):
        tensor.requires_grad_(False)


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
