"""The base class of regularizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from prototorch.schema import Block
from prototorch.schema.overrides import CONFIG_METHODS


class Regularizer(Block, family="regularizer"):
    """A penalty on a weight, added to the loss."""

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(("call", "__call__"), "define `penalty(self, weight)`, the penalty as a scalar in ops"),
    }

    def penalty(self, weight: Any) -> Any:
        """The penalty, a scalar, expressed in ops."""
        raise TypeError(f"{type(self).__name__} does not define penalty")
