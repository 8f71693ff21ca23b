"""Attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.ops.core import Op
from prototorch.ops.elementwise import broadcast_shapes, where
from prototorch.ops.facts import PrecisionClass
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.linear import matmul
from prototorch.ops.operators import op_function
from prototorch.ops.random import dropout
from prototorch.ops.shape import transpose
from prototorch.ops.softmax import softmax, softmax_grad
from prototorch.spec import Spec

MASKED_SCORE = -1e9  # the score of a masked key: its weight underflows to 0, and no row becomes NaN


class AttentionWeights(Op):
    """softmax(q @ k^T * scale) over the keys: q [N, H, T, D], k [N, H, S, D], and a bool mask that broadcasts to
    [N, H, T, S], True where a key is attended to; ``causal`` masks the keys after the query. Returns [N, H, T, S]."""

    precision = PrecisionClass.LOW

    def infer_spec(self, q: Spec, k: Spec, *mask: Spec, causal: bool = False, scale: float | None = None) -> Spec:
        if q.ndim != 4 or k.ndim != 4 or q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
            raise self.shape_error(f"queries {list(q.shape)} and keys {list(k.shape)} are incompatible")
        shape = (*q.shape[:3], k.shape[2])
        for m in mask:
            if m.dtype != "bool" or broadcast_shapes(self, (m.shape, shape)) != shape:
                raise self.shape_error(f"a mask {m} does not broadcast to {list(shape)}")
        return Spec(shape, q.dtype)

    def decompose(self, q: Any, k: Any, *mask: Any, causal: bool = False, scale: float | None = None) -> Any:
        return softmax(masked_scores(q, k, mask, causal, scale))

    def vjp(self, grads, outputs, inputs, needs, attrs):
        q, k = inputs[:2]
        g = softmax_grad(grads[0], outputs[0]) * attention_scale(q, attrs.get("scale"))
        dq = matmul(g, k) if needs[0] else None
        dk = matmul(g, q, transpose_a=True) if needs[1] else None
        return [dq, dk, *[None] * (len(inputs) - 2)]


attention_weights = AttentionWeights()


def masked_scores(q: Any, k: Any, masks: Sequence[Any], causal: bool, scale: float | None) -> Any:
    """q k^T * scale [N, H, T, S], with ``MASKED_SCORE`` for keys that are not attended to; as `AttentionWeights`."""
    scores = matmul(q, k, transpose_b=True) * attention_scale(q, scale)
    hidden_score = np.asarray(MASKED_SCORE, dtype=q.dtype)
    if causal:
        t, s = q.shape[2], k.shape[2]
        visible = LazyArray((t, s), "bool", lambda: np.tril(np.ones((t, s), bool), s - t))
        scores = where(visible, scores, hidden_score)
    for mask in masks:
        scores = where(mask, scores, hidden_score)
    return scores


def attention_scale(q: Any, scale: float | None) -> float:
    """The factor of the scores: 1 / sqrt(D) by default."""
    return scale if scale is not None else 1 / math.sqrt(q.shape[-1])


class AttentionHeads(Op):
    """Attention of each head: q [N, T, H, D], k [N, S, H, D], v [N, S, H, E] and a bool mask that broadcasts to
    [N, H, T, S] give [N, T, H, E]; see `AttentionWeights` for the masks. Heads are adjacent in memory, as a projection
    returns them, so that nothing is transposed.

    With ``rate`` a random key is the last input, and the weights are dropped out before they multiply the values, as
    by ``dropout(weights, key, rate=, site=)``. A kernel need not store the weights; a plan without one computes
    `attention_weights` and two products instead.
    """

    decompose_without_kernel = True
    precision = PrecisionClass.LOW

    def infer_spec(
        self,
        q: Spec,
        k: Spec,
        v: Spec,
        *rest: Spec,
        causal: bool = False,
        scale: float | None = None,
        rate: float = 0.0,
        site: int = 0,
    ) -> Spec:
        if any(s.ndim != 4 for s in (q, k, v)) or k.shape[:3] != v.shape[:3]:
            raise self.shape_error(
                f"queries {list(q.shape)}, keys {list(k.shape)} and values {list(v.shape)} are incompatible"
            )
        mask, key = split_attention_inputs(rest, rate)
        transposed_specs = (Spec((s.shape[0], s.shape[2], s.shape[1], s.shape[3]), s.dtype) for s in (q, k))
        weights = attention_weights.infer_spec(*transposed_specs, *mask, causal=causal, scale=scale)
        if rate:
            if not key:
                raise self.shape_error(f"a rate of {rate} needs a random key as the last input")
            dropout.infer_spec(weights, key[0], rate=rate, site=site)
        return Spec((*q.shape[:3], v.shape[3]), q.dtype)

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
        q, k, v = map(swap_heads_and_time, (q, k, v))
        mask, key = split_attention_inputs(rest, rate)
        weights = attention_weights(q, k, *mask, causal=causal, scale=scale)
        if rate:
            weights = dropout(weights, *key, rate=rate, site=site)
        return swap_heads_and_time(matmul(weights, v))

    def vjp(self, grads, outputs, inputs, needs, attrs):
        input_grads = attention_heads_grad(grads[0], *inputs, **attrs)
        return [g if need else None for g, need in zip(input_grads, needs, strict=False)] + [None] * (len(inputs) - 3)


class AttentionHeadsGrad(Op):
    """The gradients of `attention_heads` by q, k and v. Inputs: the gradient of its output, and its inputs."""

    decompose_without_kernel = True

    def infer_spec(self, g: Spec, q: Spec, k: Spec, v: Spec, *rest: Spec, **attrs: Any) -> tuple[Spec, ...]:
        expected = attention_heads.infer_spec(q, k, v, *rest, **attrs)
        if g.shape != expected.shape:
            raise self.shape_error(f"expected a gradient of shape {list(expected.shape)}, got {list(g.shape)}")
        return q, k, v

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
        g, q, k, v = map(swap_heads_and_time, (g, q, k, v))
        mask, key = split_attention_inputs(rest, rate)
        weights = dropped_weights = attention_weights(q, k, *mask, causal=causal, scale=scale)
        by_weights = matmul(g, v, transpose_b=True)
        if rate:
            dropped_weights, by_weights = (dropout(x, *key, rate=rate, site=site) for x in (weights, by_weights))
        by_scores = softmax_grad(by_weights, weights) * attention_scale(q, scale)
        dq, dk = matmul(by_scores, k), matmul(by_scores, q, transpose_a=True)
        return tuple(map(swap_heads_and_time, (dq, dk, matmul(dropped_weights, g, transpose_a=True))))


def split_attention_inputs(rest: Sequence[Any], rate: float) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs of `attention_heads` behind the values: the masks, and the random key (none without a rate)."""
    return (rest[:-1], rest[-1:]) if rate else (rest, ())


def swap_heads_and_time(x: Any) -> Any:
    """[N, T, H, D] as [N, H, T, D], or back."""
    return transpose(x, order=(0, 2, 1, 3))


attention_heads, attention_heads_grad = AttentionHeads(), AttentionHeadsGrad()


@op_function
def attention(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None) -> Any:
    """Scaled dot-product attention: q [N, H, T, D], k [N, H, S, D], v [N, H, S, E] give [N, H, T, E].

    mask: bool, broadcasts to [N, H, T, S], True where a key is attended to. scale: 1 / sqrt(D) by default.
    """
    masks = () if mask is None else (mask,)
    return matmul(attention_weights(q, k, *masks, causal=causal, scale=scale), v)
