"""The softmax family as modules."""

from __future__ import annotations

from typing import Any

from prototorch.errors import ShapeError
from prototorch.nn import functional as F
from prototorch.nn.field_module import FieldModule

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class Softmax(FieldModule):
    """exp(x) / sum(exp(x)) along a dimension."""

    text_fields = ("dim",)

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """[...] to [...], which sums to 1 along ``dim``."""
        return F.softmax(input, self.dim)


class LogSoftmax(FieldModule):
    """log(softmax(x)) along a dimension."""

    text_fields = ("dim",)

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """[...] to [...], whose exponentials sum to 1 along ``dim``."""
        return F.log_softmax(input, self.dim)


class Softmin(FieldModule):
    """softmax(-x) along a dimension."""

    text_fields = ("dim",)

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """[...] to [...], which sums to 1 along ``dim``."""
        return F.softmin(input, self.dim)


class Softmax2d(FieldModule):
    """Softmax over the channels of [batch, channels, rows, columns], or without the batch."""

    def forward(self, input: Any) -> Any:
        """[batch, channels, rows, columns], or without the batch, to the same shape. Raises ShapeError for others."""
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected 3 or 4 dimensions, got {list(input.shape)}")
        return F.softmax(input, -3)
