"""A weight that is the weight of another layer, one by one: the ``share`` field of layers."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.schema import Block, example, field

__all__ = ["WeightReference", "WeightShare"]


class WeightShare(Block):
    """A weight of a layer before this one is used as a weight of this one.

    ``share { weight: "kernel"  source: "ip1/kernel" }``. Initializer, regularizer and factors are those of the layer
    that has it. (``weights: "name"`` shares all weights of a layer.)
    """

    display_name = "share"

    weight: str = field(doc="The weight of this layer, as it is named below it: kernel, bias.")
    source: str = field(
        doc="The full name of the other layer's weight: its name, or its weights field, and the weight."
    )
    reshape: bool = field(default=False, doc="Whether the source may have another shape of as many elements.")
    transpose_source: bool = field(
        default=False, doc="Whether the source, a matrix, is transposed before anything else."
    )
    transpose: bool = field(default=False, doc="Whether the weight, a matrix, is the transpose of what results.")

    examples = [
        example('share { weight: "kernel"  source: "ip1/kernel" }'),
        example('share { weight: "kernel"  source: "ip1/kernel"  reshape: true }'),
    ]

    def shared_value(self, value: Any, shape: tuple[int, ...]) -> Any:
        """The weight of this shape, from the value of the source. Raises ShapeError where it does not fit."""
        source_shape = tuple(value.shape)
        result = ops.transpose(value, order=(1, 0)) if self.transpose_source and value.ndim == 2 else value
        target = shape[::-1] if self.transpose and len(shape) == 2 else shape
        if self.reshape and prod(result.shape) == prod(target):
            result = ops.reshape(result, shape=target)
        if tuple(result.shape) != target:
            hint = "" if self.reshape else "; reshape: true takes another shape of as many elements"
            raise ShapeError(
                f"share: its weight {self.weight!r} has the shape {list(shape)}, but {self.source!r} has the shape "
                f"{list(source_shape)}{hint}"
            )
        return ops.transpose(result, order=(1, 0)) if self.transpose and len(shape) == 2 else result


class WeightReference(Block):
    """A weight of a layer above, in the place of one of this layer: ``kernel: transpose("tok/embeddings")``.

    It stands for a `share` block, and is the value of a field that bears the name of the weight.
    """

    display_name = "transpose"

    source: str = field(doc="The other layer's name, or its weights field, and the weight: tok/embeddings.")
    reshape: bool = field(default=False, doc="As that of share.")

    examples = [example('transpose { source: "tok/embeddings" }')]
