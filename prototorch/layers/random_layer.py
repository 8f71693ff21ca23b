"""The base of random layers."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.schema import field


class RandomLayer(Layer, abstract=True):
    """A layer that draws random numbers, which depend on the seed, the step and the layer's position in the net."""

    seed: int | None = field(default=None, doc="Seed of this layer, combined with the seed of the model.")
    #: whether inputs are outputs outside training
    is_identity_outside_training: ClassVar[bool] = True

    def random_site(self, ctx: Context) -> int:
        """The site of this layer's random op: that of the context, mixed with the layer's own seed."""
        return (ctx.site() + (self.seed or 0) * 0x9E3779B1) % 2**32


def rate_field() -> Any:
    """The field ``rate`` of a dropout."""
    return field(min=0, below=1, doc="Dropout rate: the probability that an element is dropped.")
