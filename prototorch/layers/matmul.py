"""The product of two computed matrices."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class MatMul(Layer):
    """Matrix products of two inputs (keras.ops.matmul, ONNX).

    Inputs [batch, ..., m, k] and [batch, ..., k, n], output [batch, ..., m, n]; sizes of 1 before the matrices are
    repeated.
    """

    channel_axis_note = "it multiplies along the last axes, as ONNX and NumPy do"
    symbolic_function = "matmul"
    inputs = 2
    transpose_b: bool = field(default=False, doc="Whether the second input holds [..., n, k].")
    examples = [
        example("MatMul { }", inputs=[(2, 3), (3, 4)]),
        example("MatMul { transpose_b: true }", inputs=[(2, 3, 2), (2, 1, 2)]),
    ]

    def call(self, ctx: Context, a: ArrayValue, b: ArrayValue) -> Any:
        if a.ndim < 3 or b.ndim != a.ndim:
            ctx.fail(
                f"its inputs must be matrices of equally many dimensions, got {list(a.shape[1:])} and "
                f"{list(b.shape[1:])}"
            )
        inner = b.shape[-1 if self.transpose_b else -2]
        if a.shape[-1] != inner:
            ctx.fail(f"the first input has {a.shape[-1]} columns, the second {inner} rows to multiply them with")
        return ops.matmul(a, b, transpose_b=self.transpose_b)
