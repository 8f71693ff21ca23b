"""The base class of regularizers."""

from __future__ import annotations

from typing import Any

from prototorch.schema import Block


class Regularizer(Block, family="regularizer"):
    """A penalty on a weight, added to the loss."""

    def penalty(self, weight: Any) -> Any:
        """The penalty, a scalar, expressed in ops."""
        raise TypeError(f"{type(self).__name__} does not define penalty")
