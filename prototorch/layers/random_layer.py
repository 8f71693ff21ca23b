"""What layers that draw share."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.schema import field


class RandomLayer(Layer, abstract=True):
    """A layer that draws. The same seed, step and place in the net draw the same."""

    seed: int | None = field(default=None, doc="Another number, another draw; the model's seed decides as well.")
    keeps_mask: ClassVar[bool] = True

    def random_site(self, ctx: Context) -> int:
        """The number of this draw."""
        return (ctx.site() + (self.seed or 0) * 0x9E3779B1) % 2**32


def rate_field() -> Any:
    """The field ``rate`` of a dropout."""
    return field(min=0, below=1, doc="The share that is dropped.")
