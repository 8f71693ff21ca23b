"""The root of all regularisers."""

from __future__ import annotations

from typing import Any

from prototorch.schema import Block


class Regularizer(Block, family="regularizer"):
    """A penalty on a weight."""

    def penalty(self, weight: Any) -> Any:
        """The penalty, a scalar, said in ops."""
        raise TypeError(f"{type(self).__name__} does not define penalty")
