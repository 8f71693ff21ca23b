"""Attention with several heads."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import steps_mask
from prototorch.ops.lazy_array import LazyArray
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field


class MultiHeadAttention(Layer):
    """Attention with several heads (Vaswani et al., 2017; Keras): each looks up values by keys, all at once.

    One input [batch, time, n] attends to itself. Two are query [batch, t, n] and value [batch, s, m]; a third is the
    key [batch, s, k], the value itself if not given; a fourth a mask [batch, t, s], nonzero where a query sees a key.
    Keys that the value's or the key's own mask leaves out are not seen; a query that its mask leaves out, or that
    sees no key, gets nothing but the bias (Keras). The query's mask is the output's. Output [batch, t, output_shape],
    with ``return_attention_scores`` also the weights [batch, heads, t, s].

    Weights: ``query/kernel`` [n, heads, key_dim], ``key/kernel`` [k, heads, key_dim], ``value/kernel`` [m, heads,
    value_dim], ``attention_output/kernel`` [heads, value_dim, output_shape], each with a ``bias``. Initializers that
    scale with the connections count all heads together.
    """

    positional = ("num_heads", "key_dim", "value_dim", "dropout", "use_bias", "output_shape")
    num_heads: int = field(min=1, doc="The number of heads.")
    key_dim: int = field(min=1, doc="The length of each head's queries and keys.")
    value_dim: int | None = field(default=None, min=1, doc="The length of each head's values; key_dim if not given.")
    dropout: float = field(default=0.0, min=0, below=1, doc="Fraction of attention weights dropped in training.")
    use_bias: bool = field(default=True, doc="Whether biases are added.")
    output_shape: int | None = field(default=None, min=1, doc="The length of the output; the query's if not given.")
    causal: bool = field(default=False, doc="Whether a step sees only itself and the steps before it.")
    return_attention_scores: bool = field(
        default=False, doc="Whether to give the attention weights as a second output."
    )
    kernel_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the kernels.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the biases.")
    kernel_regularizer: Regularizer | None = field(default=None, doc="Regularizer of each kernel.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of each bias.")
    kernel_constraint: Constraint | None = field(default=None, doc="Constraint on each kernel.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on each bias.")

    inputs = (1, 4)
    mask_policy = "use"
    examples = [
        example("MultiHeadAttention { num_heads: 2  key_dim: 3 }", inputs=[(4, 5)]),
        example("MultiHeadAttention { num_heads: 2  key_dim: 2  causal: true  use_bias: false }", inputs=[(4, 4)],
                mask=(4, 2, 3)),
        example("MultiHeadAttention { num_heads: 1  key_dim: 2  value_dim: 3  output_shape: 4 }",
                inputs=[(3, 2), (5, 4)]),
        example("MultiHeadAttention { num_heads: 2  key_dim: 2  return_attention_scores: true }",
                inputs=[(3, 2), (5, 4), (5, 3)]),
        example("MultiHeadAttention { num_heads: 2  key_dim: 2  dropout: 0.25 }", inputs=[(4, 3)]),
        example("MultiHeadAttention { num_heads: 1  key_dim: 2 }", inputs=[(3, 2), (3, 2), (3, 2), (3, 3)],
                dtype=("float32", "float32", "float32", "bool")),
    ]  # fmt: skip

    def output_count(self) -> int:
        return 1 + self.return_attention_scores

    def call(
        self,
        ctx: Context,
        query: ArrayValue,
        value: ArrayValue | None = None,
        key: ArrayValue | None = None,
        mask: ArrayValue | None = None,
    ) -> Any:
        value = query if value is None else value
        key = value if key is None else key
        for x in (query, value, key):
            if x.ndim != 3:
                ctx.fail("its inputs must be [time, n]")
        if key.shape[1] != value.shape[1]:
            ctx.fail(f"there are {key.shape[1]} keys, but {value.shape[1]} values")
        depth = self.value_dim or self.key_dim
        q, k, v = (self._heads(ctx, name, x, size) for name, x, size in
                   (("query", query, self.key_dim), ("key", key, self.key_dim), ("value", value, depth)))  # fmt: skip
        batch, steps = query.shape[:2]
        causal = self.causal and steps == key.shape[1]
        masks = self._attention_masks(ctx, query, value, key, mask)
        attending = self._attending_queries(ctx, query, value, masks)
        weights = None
        if self.return_attention_scores or (self.dropout and ctx.training):
            weights = ops.attention_weights(_by_head(q), _by_head(k), *masks, causal=causal)
            weights = _zero_rows(weights, attending, axis=2)
            dropped_weights = weights
            if self.dropout and ctx.training:
                dropped_weights = ops.dropout(weights, ctx.key(), rate=self.dropout, site=ctx.site())
            heads = _by_head(ops.matmul(dropped_weights, _by_head(v)))
        else:
            heads = _zero_rows(ops.attention_heads(q, k, v, *masks, causal=causal), attending, axis=1)
        y = self._project(ctx, "attention_output", ops.reshape(heads, shape=(batch * steps, self.num_heads * depth)),
                          (self.num_heads, depth), (self.output_shape or query.shape[2],))  # fmt: skip
        y = ops.reshape(y, shape=(batch, steps, y.shape[1]))
        ctx.set_mask(y, steps_mask(ctx, query))
        return (y, weights) if self.return_attention_scores else y

    def _heads(self, ctx: Context, name: str, x: ArrayValue, size: int) -> Any:
        batch, steps, n = x.shape
        y = self._project(ctx, name, ops.reshape(x, shape=(batch * steps, n)), (n,), (self.num_heads, size))
        return ops.reshape(y, shape=(batch, steps, self.num_heads, size))

    def _project(self, ctx: Context, name: str, x: ArrayValue, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
        fans = prod(before), prod(after)
        kernel = ctx.weight(f"{name}/kernel", (*before, *after), self.kernel_initializer, fans=fans,
                            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)  # fmt: skip
        y = ops.matmul(x, ops.reshape(kernel, shape=fans))
        if self.use_bias:
            bias = ctx.weight(f"{name}/bias", after, self.bias_initializer,
                              regularizer=self.bias_regularizer, constraint=self.bias_constraint)  # fmt: skip
            y = y + ops.reshape(bias, shape=(fans[1],))
        return y

    def _attention_masks(self, ctx: Context, query: ArrayValue, value: Any, key: Any, mask: Any) -> tuple[Any, ...]:
        """One mask of the keys that are seen, beyond the op's own causal rule, or none: bool, broadcasts to [batch,
        heads, t, s]."""
        t, s = query.shape[1], key.shape[1]
        masks = []
        if mask is not None:
            if tuple(mask.shape[1:]) != (t, s):
                ctx.fail(f"the mask must have the shape [{t}, {s}], not {list(mask.shape[1:])}")
            mask = mask if mask.dtype == "bool" else ops.not_equal(mask, 0)
            masks.append(ops.expand_dims(mask, 1))
        input_masks = {id(m): m for x in (value, key) if (m := steps_mask(ctx, x)) is not None}
        masks += [ops.reshape(m, shape=(query.shape[0], 1, 1, s)) for m in input_masks.values()]
        if self.causal and t != s:
            masks.append(_causal_mask(t, s))
        return (reduce(ops.logical_and, masks),) if masks else ()

    def _attending_queries(self, ctx: Context, query: ArrayValue, value: Any, masks: tuple[Any, ...]) -> Any | None:
        """The queries that their own mask does not leave out and that see a key: bool, broadcasts to [batch, t]; None
        for all."""
        t = query.shape[1]
        found = [m for m in (steps_mask(ctx, query),) if m is not None]
        # in self-attention without a mask as an input each query that counts sees itself
        if masks and not isinstance(masks[0], LazyArray) and (value is not query or masks[0].shape[2] > 1):
            visible = masks[0]
            if self.causal and t == visible.shape[3]:
                visible = ops.logical_and(visible, _causal_mask(t, t))
            found.append(ops.squeeze(ops.any(visible, axis=3), axis=1))
        return reduce(ops.logical_and, found) if found else None


def _causal_mask(t: int, s: int) -> LazyArray:
    """Which of s keys each of t queries sees: those up to its own step; bool [1, 1, t, s]."""
    return LazyArray((1, 1, t, s), "bool", lambda: np.tril(np.ones((1, 1, t, s), bool)))


def _zero_rows(x: ArrayValue, keep: Any | None, axis: int) -> Any:
    """x [batch, ..., t, ...], t at an axis, with zeros at the steps that the mask [batch, t] leaves out."""
    if keep is None:
        return x
    return ops.where(ops.reshape(keep, shape=(keep.shape[0], *(1,) * (axis - 1), keep.shape[1], *(1,) * (3 - axis))), x,
                     ops.zeros_like(x))  # fmt: skip


def _by_head(x: ArrayValue) -> Any:
    """[batch, time, heads, n] as [batch, heads, time, n], or back."""
    return ops.transpose(x, order=(0, 2, 1, 3))
