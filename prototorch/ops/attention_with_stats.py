"""Attention that returns a statistic of each row of scores for its gradient: a plan uses it where the gradient is
computed too, so that the gradient need not compute the maxima and sums of the softmax again (Dao et al., 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.ops.attention import (
    MASKED_SCORE,
    AttentionHeads,
    AttentionHeadsGrad,
    attention_heads,
    attention_heads_grad,
    attention_scale,
    masked_scores,
    split_attention_inputs,
    swap_heads_and_time,
)
from prototorch.ops.elementwise import cast, exp, less, log, where
from prototorch.ops.linear import matmul
from prototorch.ops.random import dropout
from prototorch.ops.reduce import max_, sum_
from prototorch.ops.shape import expand_dims, squeeze
from prototorch.spec import Spec

#: a statistic below it is that of a row in which no key is attended to
NO_KEY_STATISTIC = MASKED_SCORE / 2


class AttentionHeadsWithStats(AttentionHeads):
    """`attention_heads`, and as a second output the statistic of each row: log(sum(exp(scores))) over its keys
    [N, H, T], in float32 for 16-bit inputs; the score of a masked key for a row in which no key is attended to."""

    decompose_without_kernel = False

    def infer_spec(self, q: Spec, k: Spec, v: Spec, *rest: Spec, **attrs: Any) -> tuple[Spec, Spec]:
        y = attention_heads.infer_spec(q, k, v, *rest, **attrs)
        n, t, h, _ = q.shape
        return y, Spec((n, h, t), _stats_dtype(q.dtype))

    def decompose(
        self,
        q: Any,
        k: Any,
        v: Any,
        *rest: Any,
        causal: bool = False,
        scale: float | None = None,
        rate: float = 0.0,
        site: int = 0,
    ) -> Any:
        dtype = q.dtype
        q, k, v = map(swap_heads_and_time, (q, k, v))
        mask, key = split_attention_inputs(rest, rate)
        scores = cast(masked_scores(q, k, mask, causal, scale), dtype=_stats_dtype(dtype))
        top = max_(scores, axis=3, keepdims=True)
        exponentials = exp(scores - top)
        total = sum_(exponentials, axis=3, keepdims=True)
        weights = cast(exponentials / total, dtype=dtype)
        if rate:
            weights = dropout(weights, *key, rate=rate, site=site)
        stats = where(less(top, np.asarray(NO_KEY_STATISTIC, top.dtype)), top, top + log(total))
        return swap_heads_and_time(matmul(weights, v)), squeeze(stats, axis=3)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        if grads[0] is None:
            return [None] * len(inputs)
        input_grads = attention_heads_with_stats_grad(grads[0], *inputs, *outputs, **attrs)
        return [g if need else None for g, need in zip(input_grads, needs, strict=False)] + [None] * (len(inputs) - 3)


class AttentionHeadsWithStatsGrad(AttentionHeadsGrad):
    """The gradients of `attention_heads` by q, k and v. Inputs: the gradient of its output, its inputs, and both
    outputs of `attention_heads_with_stats`."""

    decompose_without_kernel = False

    def infer_spec(self, g: Spec, q: Spec, k: Spec, v: Spec, *rest: Spec, **attrs: Any) -> tuple[Spec, ...]:
        *rest_inputs, y, stats = rest
        expected = attention_heads_with_stats.infer_spec(q, k, v, *rest_inputs, **attrs)
        if (y.shape, stats.shape) != (expected[0].shape, expected[1].shape):
            raise self.shape_error(
                f"expected an output {list(expected[0].shape)} and statistics {list(expected[1].shape)}, got "
                f"{list(y.shape)} and {list(stats.shape)}"
            )
        return attention_heads_grad.infer_spec(g, q, k, v, *rest_inputs, **attrs)

    def decompose(
        self,
        g: Any,
        q: Any,
        k: Any,
        v: Any,
        *rest: Any,
        causal: bool = False,
        scale: float | None = None,
        rate: float = 0.0,
        site: int = 0,
    ) -> Any:
        *rest_inputs, y, stats = rest
        dtype = q.dtype
        g, q, k, v, y = map(swap_heads_and_time, (g, q, k, v, y))
        mask, key = split_attention_inputs(rest_inputs, rate)
        stats = expand_dims(stats, axis=3)
        scores = cast(masked_scores(q, k, mask, causal, scale), dtype=stats.dtype)
        keys = where(
            less(stats, np.asarray(NO_KEY_STATISTIC, stats.dtype)),
            np.asarray(k.shape[2], stats.dtype),
            np.asarray(1, stats.dtype),
        )
        weights = dropped_weights = cast(exp(scores - stats) / keys, dtype=dtype)
        by_weights = matmul(g, v, transpose_b=True)
        if rate:
            dropped_weights, by_weights = (dropout(x, *key, rate=rate, site=site) for x in (weights, by_weights))
        by_scores = weights * (by_weights - sum_(g * y, axis=3, keepdims=True)) * attention_scale(q, scale)
        dq, dk = matmul(by_scores, k), matmul(by_scores, q, transpose_a=True)
        return tuple(map(swap_heads_and_time, (dq, dk, matmul(dropped_weights, g, transpose_a=True))))


def _stats_dtype(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


attention_heads_with_stats, attention_heads_with_stats_grad = AttentionHeadsWithStats(), AttentionHeadsWithStatsGrad()
