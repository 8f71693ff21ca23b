"""A weight as a value that depends on no input."""

from __future__ import annotations

from typing import Any

from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.regularizers import Regularizer
from prototorch.schema import Dims, example, field


class Variable(Layer):
    """A weight of its own as a value of the net, without a batch dimension (keras.Variable; Caffe's Parameter).

    It reads no input, and so stands in model texts only. Output [*shape]; `Parameter` gives such a weight once for each
    sample.
    """

    inputs = 0

    shape: tuple[int, ...] = field(
        default=(), type=Dims(unknown=False, min=0), doc="The shape of the weight, ``value``; [] is a scalar."
    )
    initializer: Initializer = field(default="zeros", doc="Initializer of the weight.")
    regularizer: Regularizer | None = field(default=None, doc="Regularizer of the weight.")
    constraint: Constraint | None = field(default=None, doc="Constraint on the weight.")
    examples = [
        example(
            "Variable { shape: [2, 3]  initializer: RandomNormal { } }", inputs=[], batch_axis=False, batched=False
        ),
        example("Variable { initializer: ones }", inputs=[], batch_axis=False, batched=False),
    ]

    def call(self, ctx: Context) -> Any:
        return ctx.weight("value", tuple(self.shape), self.initializer, regularizer=self.regularizer,
                          constraint=self.constraint)  # fmt: skip
