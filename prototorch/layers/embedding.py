"""Tables of vectors: for tokens, and for positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.ops.lazy_array import LazyArray
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field


class Embedding(Layer):
    """A trained vector for each index (Keras). Input [batch, ...], output [batch, ..., output_dim].

    The weight is ``embeddings`` [input_dim, output_dim]. Floating-point input is rounded towards 0 first.
    Data with indices outside 0 ... input_dim - 1 are rejected before the first step; such an index computed by another
    layer gives a vector of NaN.
    """

    channel_axis_note = "the vectors are a new last axis, as in Keras"
    consumes_features = True
    independent_steps = True

    foreign_names = {"Embed": "Embedding"}
    foreign_fields = {"num_embeddings": "input_dim", "embedding_dim": "output_dim"}

    input_dim: int = field(min=1, doc="Number of distinct indices: the largest plus 1.")
    output_dim: int = field(min=1, doc="The length of each vector.")
    embeddings_initializer: Initializer = field(default="random_uniform", doc="Initializer of the vectors.")
    embeddings_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the vectors.")
    embeddings_constraint: Constraint | None = field(default=None, doc="Constraint on the vectors.")
    mask_zero: bool = field(default=False, doc="Whether 0 stands for no token, so that layers behind leave it out.")

    transposable_weight = "embeddings"
    examples = [
        example("Embedding { input_dim: 7  output_dim: 3 }", inputs=[(5,)], dtype="int32", range=(0, 7)),
        example(
            "Embedding { input_dim: 4  output_dim: 2  mask_zero: true }", inputs=[(2, 3)], dtype="int64", range=(0, 4)
        ),
    ]

    def index_count(self) -> int | None:
        return self.input_dim

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = ops.cast(x, dtype="int32") if x.dtype.startswith("float") else x
        table = ctx.weight(
            "embeddings",
            (self.input_dim, self.output_dim),
            self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )
        y = ops.take(table, x)
        if self.mask_zero:
            ctx.set_mask(y, ops.not_equal(x, 0))
        return y


class PositionEmbedding(Layer):
    """Adds a learnt vector to each step (Gehring et al., 2017): x + position_embeddings[:time].

    Input [batch, time, n], output of the same shape. The weight is ``position_embeddings`` [sequence_length, n].
    KerasHub's layer of this name gives the vectors alone; here, in a chain of layers, they are added.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    sequence_length: int = field(min=1, doc="The largest number of steps.")
    initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the vectors.")

    mask_policy = "keep"
    examples = [
        example("PositionEmbedding { sequence_length: 5 }", inputs=[(5, 3)]),
        example("PositionEmbedding { sequence_length: 9  initializer: random_normal }", inputs=[(4, 2)]),
    ]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, inputs[0].ndim == 3, *inputs)
        x = inputs[0]
        table = ctx.weight("position_embeddings", (self.sequence_length, x.shape[2]), self.initializer)
        return x + ctx.table_rows(table)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim != 3:
            ctx.fail("the input must be [time, n]")
        if x.shape[1] > self.sequence_length:
            ctx.fail(f"there are {x.shape[1]} steps, but sequence_length is {self.sequence_length}")
        table = ctx.weight("position_embeddings", (self.sequence_length, x.shape[2]), self.initializer)
        rows = table if x.shape[1] == self.sequence_length else table[: x.shape[1]]
        return x + rows


class SinePositionEncoding(Layer):
    """Adds a fixed vector to each step (Vaswani et al., 2017): sines and cosines of falling frequencies.

    Input [batch, time, n], output of the same shape: x[t, 2i] + sin(t / w^(2i / n)), x[t, 2i + 1] + cos(t / w^(2i / n))
    where w is max_wavelength. KerasHub's layer of this name gives the vectors alone.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    max_wavelength: float = field(default=10000.0, above=0, doc="The largest wavelength, in steps (over 2 pi).")

    mask_policy = "keep"
    examples = [example("SinePositionEncoding { }", inputs=[(4, 6)])]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, inputs[0].ndim == 3, *inputs)
        x, n = inputs[0], inputs[0].shape[2]
        table = LazyArray((ctx.capacity, n), x.dtype, lambda: self._table(ctx.capacity, n))
        return x + ctx.table_rows(table)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim != 3:
            ctx.fail("the input must be [time, n]")
        steps, n = x.shape[1:]
        return x + LazyArray((steps, n), x.dtype, lambda: self._table(steps, n))

    def _table(self, steps: int, n: int) -> np.ndarray:
        """The vectors of all steps, float64 [steps, n]."""
        index = np.arange(n)
        rates = (1.0 / self.max_wavelength) ** (2 * (index // 2) / n)
        angles = np.arange(steps)[:, None] * rates
        return np.where(index % 2 == 0, np.sin(angles), np.cos(angles))
