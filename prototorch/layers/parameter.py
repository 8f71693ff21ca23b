"""A weight as a value of the net."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.regularizers import Regularizer
from prototorch.schema import Dims, example, field


class Parameter(Layer):
    """A weight of its own, the same for each sample: a class token, a learned query, a table of constants (Caffe,
    PyTorch's nn.Parameter).

    Input [batch, ...], of which only the number of samples counts; output [batch, *shape]. With ``trainable: false`` it
    is a constant. Integers are never trained.
    """

    channel_axis_note = "its field `shape` says the axes"
    shape: tuple[int, ...] = field(type=Dims(unknown=False, min=0), doc="The shape of the weight, ``value``.")
    dtype: Literal["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"] | None = field(
        default=None, doc="The type of its elements; the net's floating-point type if not given."
    )
    initializer: Initializer = field(default="zeros", doc="Initializer of the weight.")
    regularizer: Regularizer | None = field(default=None, doc="Regularizer of the weight.")
    constraint: Constraint | None = field(default=None, doc="Constraint on the weight.")
    examples = [
        example("Parameter { shape: [2, 3]  initializer: RandomNormal { } }", inputs=[(4,)], gradient=False),
        example("Parameter { shape: [1]  initializer: ones  trainable: false }", inputs=[(2, 2)], gradient=False),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        is_float = self.dtype is None or self.dtype.startswith("float")
        dtype = None if self.dtype == "float32" else self.dtype
        value = ctx.weight(
            "value",
            self.shape,
            self.initializer,
            regularizer=self.regularizer,
            constraint=self.constraint,
            trainable=is_float,
            dtype=dtype,
        )
        return ops.broadcast_to(ops.reshape(value, shape=(1, *self.shape)), shape=(x.shape[0], *self.shape))
