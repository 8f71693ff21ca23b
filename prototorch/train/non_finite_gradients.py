"""The check of a training step's gradients, inside the step: no update counts where one of them is not finite.

A loss may be finite where its gradient is not (the derivative of a root at 0), and would then make the weights NaN
without a word. What the check reads is as small as it can be, so that a step takes no longer for it: the gradient of a
dense layer's weights is a product of two matrices that are smaller than it, and is not finite where these are not. What
overflows in such a product, or in the update itself, shows in the weights, which `state_check` looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch import ops
from prototorch.graph.ir import Value
from prototorch.ops.linear import matmul
from prototorch.ops.reduce import sum_
from prototorch.ops.shape import reshape, transpose

__all__ = ["gradient_operands", "non_finite_marker"]


def non_finite_marker(values: Iterable[Value]) -> Value | None:
    """A scalar: 0, or NaN where an element of one of the values is not finite; None where there are no values."""
    zeros = [ops.sum(v * 0.0) for v in values]
    return sum(zeros[1:], zeros[0]) if zeros else None


def gradient_operands(gradients: Sequence[Value]) -> list[Value]:
    """The values to look at for gradients: a gradient itself, or the operands of the product that it is.

    An operand is left out where it is an input of the net, which is looked at when the data are, or where another
    gradient is its sum over the batch.
    """
    sources = [_before_reshape(g) for g in gradients]
    summed = {_before_reshape(s.producer.inputs[0]) for s in sources if s.producer and s.producer.op is sum_}
    gradient_values: dict[Value, None] = {}
    for gradient, source in zip(gradients, sources, strict=True):
        operands = _smaller_operands(source)
        if operands is None:
            gradient_values[gradient] = None
        else:
            roots = [_before_reshape(v) for v in operands]
            gradient_values.update(dict.fromkeys(v for v in roots if v.kind == "node" and v not in summed))
    return list(gradient_values)


def _smaller_operands(value: Value) -> Sequence[Value] | None:
    """The operands of a product that together are no larger than it; None for any other value."""
    node = value.producer
    if node is None or node.op is not matmul:
        return None
    return node.inputs if sum(v.spec.nbytes for v in node.inputs) <= value.spec.nbytes else None


def _before_reshape(value: Value) -> Value:
    """The value whose elements a value has in another shape or order."""
    while value.producer is not None and value.producer.op in (reshape, transpose):
        value = value.producer.inputs[0]
    return value
