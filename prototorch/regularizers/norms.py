"""Penalties on the size of a weight (Keras' definitions: no factor 1/2)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.ops.lazy_array import LazyArray
from prototorch.regularizers.base import Regularizer
from prototorch.schema import field


class L1(Regularizer):
    """l1 * sum |w|."""

    l1: float = field(default=0.01, min=0)

    def penalty(self, weight: Any) -> Any:
        return ops.sum(ops.abs(weight)) * self.l1


class L2(Regularizer):
    """l2 * sum w^2."""

    l2: float = field(default=0.01, min=0)

    def penalty(self, weight: Any) -> Any:
        return ops.sum(ops.square(weight)) * self.l2


class L1L2(Regularizer):
    """l1 * sum |w| + l2 * sum w^2."""

    aliases = ("l1_l2",)
    l1: float = field(default=0.0, min=0)
    l2: float = field(default=0.0, min=0)

    def penalty(self, weight: Any) -> Any:
        return ops.sum(ops.abs(weight)) * self.l1 + ops.sum(ops.square(weight)) * self.l2


class OrthogonalRegularizer(Regularizer):
    """Pushes the rows (or columns) of a matrix to be orthogonal: factor * the mean |cosine| of the pairs (Keras)."""

    factor: float = field(default=0.01, min=0)
    mode: Literal["rows", "columns"] = "rows"

    def penalty(self, weight: Any) -> Any:
        if weight.ndim != 2:
            raise ShapeError(f"OrthogonalRegularizer needs a matrix, got a weight of shape {list(weight.shape)}")
        w = weight if self.mode == "rows" else ops.transpose(weight, order=(1, 0))
        # Keras 3 normalises with l2_normalize, whose floor under the squared norm is 1e-12
        w = w * ops.rsqrt(ops.maximum(ops.sum(ops.square(w), axis=1, keepdims=True), 1e-12))
        n = w.shape[0]
        off = LazyArray((n, n), weight.dtype, lambda: 1 - np.eye(n))
        pairs = ops.abs(ops.matmul(w, w, transpose_b=True) * off)
        return ops.sum(pairs) * (self.factor * 0.5 / max(n * (n - 1) / 2, 1))
