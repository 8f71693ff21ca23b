"""Dropout as modules."""

from __future__ import annotations

from typing import Any

from prototorch.errors import UsageError
from prototorch.nn import functional as F
from prototorch.nn.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "RReLU"]


class _Dropout(Module):
    function: str

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise UsageError(f"{type(self).__name__}: the probability must lie in [0, 1], got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        """The input with some elements or channels dropped; in evaluation mode the input."""
        return getattr(F, self.function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Elements become 0 with the probability p, the others are divided by 1 - p."""

    function = "dropout"


class Dropout1d(_Dropout):
    """Whole channels of [batch, channels, steps] become 0."""

    function = "dropout1d"


class Dropout2d(_Dropout):
    """Whole channels of [batch, channels, rows, columns] become 0."""

    function = "dropout2d"


class Dropout3d(_Dropout):
    """Whole channels of [batch, channels, depth, rows, columns] become 0."""

    function = "dropout3d"


class AlphaDropout(_Dropout):
    """Elements become SELU's limit with the probability p; mean and variance stay."""

    function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """As `AlphaDropout`, of whole channels."""

    function = "feature_alpha_dropout"


class RReLU(Module):
    """x where x > 0, else a * x, with a uniform in [lower, upper] in training, their mean outside."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")
