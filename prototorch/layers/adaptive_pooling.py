"""Pooling to a given number of windows, whatever the size of the input."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.rescaling import as_float
from prototorch.layers.windows import check_rank
from prototorch.ops.lazy_array import LazyArray
from prototorch.schema import Ints, example, field


def averaging_matrix(size: int, new_size: int) -> np.ndarray:
    """The matrix [new_size, size] of one axis: window i is from floor(i size / new_size) to ceil((i + 1) size /
    new_size), so that windows may overlap, and differ by one element."""
    matrix = np.zeros((new_size, size))
    for i in range(new_size):
        first, last = i * size // new_size, -((i + 1) * size // -new_size)
        matrix[i, first:last] = 1 / (last - first)
    return matrix


class AdaptiveAveragePooling2D(MapLayer):
    """Average pooling to a given size of the output (Keras; PyTorch's AdaptiveAvgPool2d).

    Input [batch, channels, rows, columns], output [batch, channels, *output_size].
    """

    foreign_names = {"AdaptiveAvgPool2d": "AdaptiveAveragePooling2D"}
    keeps_bounds = True
    over_images = True
    output_size: tuple[int, int] = field(type=Ints(2, min=1), doc="Rows and columns of the output.")
    examples = [
        example("AdaptiveAveragePooling2D { output_size: 4 }", inputs=[(2, 14, 14)]),
        example("AdaptiveAveragePooling2D { output_size: [2, 3] }", inputs=[(1, 5, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, 2)
        x = as_float(x)
        rows, columns = x.shape[2:]
        if rows != self.output_size[0]:
            x = ops.matmul(_matrix(rows, self.output_size[0], x.dtype), x)
        if columns != self.output_size[1]:
            x = ops.matmul(x, _matrix(columns, self.output_size[1], x.dtype), transpose_b=True)
        return x


def _matrix(size: int, new_size: int, dtype: str) -> LazyArray:
    return LazyArray((new_size, size), dtype, partial(averaging_matrix, size, new_size))
