"""A weight as a value that depends on no input."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.regularizers import Regularizer
from prototorch.schema import Dims, example, field


class Variable(Layer):
    """A weight of its own as a value of the net, without a batch dimension (keras.Variable; Caffe's Parameter).

    It needs no input, and ignores one that it is given. Output [*shape]; `Parameter` gives such a weight once for each
    sample.
    """

    channel_axis_note = "its field `shape` says the axes"
    inputs = (0, 1)

    shape: tuple[int, ...] = field(
        default=(), type=Dims(unknown=False, min=0), doc="The shape of the weight, ``value``; [] is a scalar."
    )
    initializer: Initializer = field(default="zeros", doc="Initializer of the weight.")
    regularizer: Regularizer | None = field(default=None, doc="Regularizer of the weight.")
    constraint: Constraint | None = field(default=None, doc="Constraint on the weight.")
    examples = [
        example(
            "Variable { shape: [2, 3]  initializer: RandomNormal { } }",
            inputs=[(2,)],
            gradient=False,
            batch_axis=False,
            batched=False,
        ),
        example(
            "Variable { shape: [1]  initializer: ones }", inputs=[(2,)], gradient=False, batch_axis=False, batched=False
        ),
    ]

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        value = ctx.weight(
            "value", tuple(self.shape), self.initializer, regularizer=self.regularizer, constraint=self.constraint
        )
        return ops.reshape(value, shape=tuple(self.shape))  # a value of the graph of its own
