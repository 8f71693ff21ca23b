"""Activations: each is a layer of its own, and the value of any ``activation`` field."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.schema import example


class ActivationLayer(Layer, abstract=True):
    """An activation: one input, an output of the same shape."""

    keeps_mask = True


class Linear(ActivationLayer):
    """The input as it is."""

    aliases = ("identity",)
    examples = [example("Linear { }", inputs=[(3,)])]

    def call(self, ctx: Context, x: Any) -> Any:  # type: ignore[override]
        return x


class Tanh(ActivationLayer):
    """The hyperbolic tangent."""

    examples = [example("Tanh { }", inputs=[(3,)])]

    def call(self, ctx: Context, x: Any) -> Any:  # type: ignore[override]
        return ops.tanh(x)
