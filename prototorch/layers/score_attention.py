"""Attention without projections: a score of each query and key, a softmax, a mean of the values."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from prototorch import ops
from prototorch.layers.attention_masks import causal_mask, visible_keys
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import expand_mask, steps_mask
from prototorch.schema import example, field

_MASKED_SCORE = -1e9  # of a key that is not seen, as in the attention ops


class _ScoreAttention(Layer):
    """One body for both layers; they say what the score is."""

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    inputs = (2, 3)
    mask_policy = "use"
    consumes_features = True

    use_scale: Any
    dropout: float = field(default=0.0, min=0, below=1, doc="Fraction of attention weights dropped in training.")
    causal: bool = field(default=False, doc="Whether a query sees only the keys up to its own step.")
    return_attention_scores: bool = field(
        default=False, doc="Whether to give the attention weights as a second output."
    )

    def output_count(self) -> int:
        return 1 + self.return_attention_scores

    def call(self, ctx: Context, query: ArrayValue, value: ArrayValue, key: ArrayValue | None = None) -> Any:
        key = value if key is None else key
        for x in (query, value, key):
            if x.ndim != 3:
                ctx.fail("its inputs must be [time, n]")
        if key.shape[1] != value.shape[1]:
            ctx.fail(f"there are {key.shape[1]} keys, but {value.shape[1]} values")
        if query.shape[2] != key.shape[2]:
            ctx.fail(f"a query has {query.shape[2]} features, but a key {key.shape[2]}; a Dense layer makes them equal")
        masks = visible_keys(ctx, query, value, key, None, self.causal)
        y, weights = self.attend(ctx, query, key, value, masks)
        query_mask = steps_mask(ctx, query)
        if query_mask is not None:
            y = ops.where(expand_mask(query_mask, 3), y, ops.zeros_like(y))
        ctx.set_mask(y, query_mask)
        return (y, weights) if self.return_attention_scores else y

    def attend(
        self, ctx: Context, query: ArrayValue, key: ArrayValue, value: ArrayValue, masks: tuple[Any, ...]
    ) -> tuple[Any, Any]:
        """The means of the values [batch, t, m], and the weights [batch, t, s] (None where they are not stored)."""
        scores = self.scores(ctx, query, key)
        if self.causal and query.shape[1] == key.shape[1]:
            masks = (*masks, causal_mask(query.shape[1], key.shape[1]))
        for mask in masks:
            scores = ops.where(
                ops.reshape(mask, shape=(mask.shape[0], *mask.shape[2:])),
                scores,
                np.asarray(_MASKED_SCORE, scores.dtype),
            )
        weights = ops.softmax(scores)
        if self.dropout and ctx.training:
            weights = ops.dropout(weights, ctx.key(), rate=self.dropout, site=ctx.site())
        return ops.matmul(weights, value), weights

    def scores(self, ctx: Context, query: ArrayValue, key: ArrayValue) -> Any:
        """The scores [batch, t, s]."""
        raise TypeError(f"{type(self).__name__} does not define scores")


class Attention(_ScoreAttention):
    """Attention by the products of queries and keys (Luong et al., 2015; Keras), without heads or projections.

    Inputs query [batch, t, n], value [batch, s, m] and key [batch, s, n], the value itself if not given; output
    [batch, t, m], with ``return_attention_scores`` also the weights [batch, t, s]. The scores are q . k, with
    ``use_scale`` times a trained ``scale``; with ``score_mode: concat`` a trained ``concat_score_weight`` times the
    sum of tanh(q + k), where the scale is a factor of q + k. Keys that the value's or the key's mask leaves out are
    not seen; a query that its mask leaves out gets 0. The query's mask is the output's.
    """

    positional = ("use_scale", "score_mode", "dropout")
    use_scale: bool = field(default=False, doc="Whether the scores have a trained factor.")
    score_mode: Literal["dot", "concat"] = field(default="dot", doc="How a query and a key give a score.")

    examples = [
        example("Attention { }", inputs=[(3, 4), (5, 4)]),
        example("Attention { use_scale: true  causal: true }", inputs=[(4, 2), (4, 2)], mask=(4, 2, 3)),
        example("Attention { score_mode: concat  use_scale: true  return_attention_scores: true }",
                inputs=[(3, 2), (5, 4), (5, 2)]),
        example("Attention { dropout: 0.25 }", inputs=[(3, 2), (4, 2)]),
    ]  # fmt: skip

    def attend(
        self, ctx: Context, query: ArrayValue, key: ArrayValue, value: ArrayValue, masks: tuple[Any, ...]
    ) -> tuple[Any, Any]:
        if self.score_mode != "dot" or self.return_attention_scores:
            return super().attend(ctx, query, key, value, masks)
        drops = bool(self.dropout) and ctx.training
        random = (ctx.key(),) if drops else ()
        attrs = {"rate": self.dropout, "site": ctx.site()} if drops else {}
        q, k, v = (ops.expand_dims(x, 2) for x in (self._apply_scale(ctx, query), key, value))
        causal = self.causal and query.shape[1] == key.shape[1]
        heads = ops.attention_heads(q, k, v, *masks, *random, causal=causal, scale=1.0, **attrs)
        return ops.squeeze(heads, axis=2), None

    def scores(self, ctx: Context, query: ArrayValue, key: ArrayValue) -> Any:
        if self.score_mode == "dot":
            return ops.matmul(self._apply_scale(ctx, query), key, transpose_b=True)
        sums = self._apply_scale(ctx, _sums(query, key))
        return ops.sum(ops.tanh(sums), axis=3) * ctx.weight("concat_score_weight", (), "ones")

    def _apply_scale(self, ctx: Context, x: ArrayValue) -> Any:
        return x * ctx.weight("scale", (), "ones") if self.use_scale else x


class AdditiveAttention(_ScoreAttention):
    """Attention by the sums of queries and keys (Bahdanau et al., 2014; Keras).

    Inputs, masks and outputs as for `Attention`; the score is the sum of scale * tanh(q + k), where ``scale`` [n] is
    trained (1 without ``use_scale``).
    """

    positional = ("use_scale", "dropout")
    use_scale: bool = field(default=True, doc="Whether the features have trained factors.")

    examples = [
        example("AdditiveAttention { }", inputs=[(3, 4), (5, 4)], mask=(3, 1, 2)),
        example("AdditiveAttention { use_scale: false  causal: true  return_attention_scores: true }",
                inputs=[(3, 2), (3, 4), (3, 2)]),
        example("AdditiveAttention { dropout: 0.25 }", inputs=[(3, 2), (4, 2)]),
    ]  # fmt: skip

    def scores(self, ctx: Context, query: ArrayValue, key: ArrayValue) -> Any:
        y = ops.tanh(_sums(query, key))
        if self.use_scale:
            y = y * ctx.weight("scale", (query.shape[2],), "glorot_uniform")
        return ops.sum(y, axis=3)


def _sums(query: ArrayValue, key: ArrayValue) -> Any:
    """q + k for each query and key, [batch, t, s, n]."""
    return ops.expand_dims(query, 2) + ops.expand_dims(key, 1)
