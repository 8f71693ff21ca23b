"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.ops.lazy_array import LazyArray
from prototorch.schema import example, field


class RotaryEmbedding(Layer):
    """Turns pairs of features by angles that grow with the step (Su et al., 2021; KerasHub), so that products of
    queries and keys depend on their distance.

    Input [batch, time, n] or [batch, time, heads, n] with an even n, output of the same shape. The pair i of step t is
    turned by t / scaling_factor / max_wavelength^(2i / n): the features i and i + n / 2, or 2i and 2i + 1 with
    ``interleaved``.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    max_wavelength: float = field(default=10000.0, above=0, doc="The largest wavelength, in steps (over 2 pi).")
    scaling_factor: float = field(default=1.0, above=0, doc="The number by which steps are divided, for longer inputs.")
    interleaved: bool = field(default=False, doc="Whether adjacent features are a pair (the paper), not the halves.")

    mask_policy = "keep"
    examples = [
        example("RotaryEmbedding { }", inputs=[(4, 6)]),
        example("RotaryEmbedding { max_wavelength: 100  scaling_factor: 2  interleaved: true }", inputs=[(3, 2, 4)]),
    ]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, inputs[0].ndim in (3, 4), *inputs)
        x = inputs[0]
        wide = (ctx.capacity, *(1,) * (x.ndim - 3), x.shape[-1] // 2)
        return self._rotate(ctx, x, *(ctx.table_rows(self._table(f, x.dtype, wide)) for f in (np.cos, np.sin)))

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim not in (3, 4):
            ctx.fail("the input must be [time, n] or [time, heads, n]")
        wide = (x.shape[1], *(1,) * (x.ndim - 3), x.shape[-1] // 2)
        return self._rotate(ctx, x, *(self._table(function, x.dtype, wide) for function in (np.cos, np.sin)))

    def _rotate(self, ctx: Context, x: ArrayValue, cos: Any, sin: Any) -> Any:
        """x with its pairs turned, given the cosines and sines of the angles of its steps."""
        n = x.shape[-1]
        if n % 2:
            ctx.fail(f"the features must be pairs, an even number, not {n}")
        pairs = (*x.shape[:-1], n // 2, 2) if self.interleaved else (*x.shape[:-1], 2, n // 2)
        axis = x.ndim if self.interleaved else x.ndim - 1
        parts = ops.reshape(x, shape=pairs)
        a, b = (ops.squeeze(part, axis) for part in ops.split(parts, 2, axis=axis))
        rotated = ops.stack([a * cos - b * sin, b * cos + a * sin], axis=axis)
        return ops.reshape(rotated, shape=tuple(x.shape))

    def _table(self, function: Any, dtype: str, shape: tuple[int, ...]) -> LazyArray:
        """A function of the angles of all steps and pairs, of the shape [time, ..., pairs]."""

        def values() -> np.ndarray:
            rates = self.max_wavelength ** (-np.arange(shape[-1]) / shape[-1])
            return np.reshape(function(np.arange(shape[0])[:, None] / self.scaling_factor * rates), shape)

        return LazyArray(shape, dtype, values)
