"""Layers that give the same elements another shape."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.schema import example


class Flatten(Layer):
    """All dimensions but the batch's as one. Channels-first: the order is channel, row, column."""

    examples = [example("Flatten { }", inputs=[(2, 3, 4)])]

    def call(self, ctx: Context, x: Any) -> Any:  # type: ignore[override]
        return ops.reshape(x, shape=(x.shape[0], prod(x.shape[1:])))
