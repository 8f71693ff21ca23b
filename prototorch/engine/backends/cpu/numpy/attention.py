"""Attention of heads, some rows of scores at a time, so that no matrix of all scores is stored (Rabe and Staats, 2021).

A piece of work is a block of one head's queries; of the gradient, a whole head, whose keys and values are added to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.random import random_words_from
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.attention import split_attention_inputs
from prototorch.spec import Spec

_BLOCK_ELEMENTS = 1 << 16  # scores of a block
_MASKED_SCORE = -1e9  # as in the op's reference implementation


class _Heads:
    """Sizes and settings, and the weights of a block of queries."""

    def __init__(self, ins: tuple[Spec, ...], attrs: dict[str, Any]):
        (self.n, self.t, self.h, d), self.s, self.dtype = ins[0].shape, ins[1].shape[1], ins[0].dtype
        scale = attrs.get("scale")
        self.scale = np.asarray(1 / math.sqrt(d) if scale is None else scale, self.dtype)
        self.causal, self.rate, self.site = bool(attrs.get("causal")), attrs.get("rate", 0.0), attrs.get("site", 0)
        self.block = max(min(_BLOCK_ELEMENTS // self.s, self.t), 1)
        self.blocks = -(-self.t // self.block)

    def rows(self, block: int) -> tuple[int, int]:
        """The first query of a block, and the end."""
        return block * self.block, min((block + 1) * self.block, self.t)

    def weights(self, weights: Any, q: Any, k: Any, masks: Sequence[Any], first: int) -> None:
        """softmax(q k^T scale) of the queries from ``first`` on, with the masks' rows, into an array."""
        np.matmul(q, k.T, out=weights)
        np.multiply(weights, self.scale, out=weights)
        if self.causal:
            future_keys = np.arange(self.s) > np.arange(first, first + len(q))[:, None] + (self.s - self.t)
            np.copyto(weights, self.dtype_of(_MASKED_SCORE), where=future_keys)
        for mask in masks:
            np.copyto(weights, self.dtype_of(_MASKED_SCORE), where=~mask)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)

    def dtype_of(self, value: float) -> np.ndarray:
        return np.asarray(value, self.dtype)

    def factors(self, key: Any, item: int, first: int, rows: int) -> Any:
        """The factors of the weights of these queries: 0 where one is dropped, else 1 / (1 - rate)."""
        start = (item * self.t + first) * self.s
        skipped = start % 16
        words = random_words_from(key, self.site, (start - skipped) // 4, -(-(skipped + rows * self.s) // 4))
        bits = words.view("<u2")[skipped : skipped + rows * self.s].reshape(rows, self.s)
        return (bits >= np.uint32(round(self.rate * 65536))) * self.dtype_of(1 / (1 - self.rate))


def _is_supported(*specs: Spec) -> bool:
    return (
        len({s.dtype for s in specs}) == 1 and specs[0].dtype in ("float32", "float64") and all(s.size for s in specs)
    )


def _masks_of(masks: Sequence[Any], p: _Heads) -> Callable[[int, int, int], list[Any]]:
    """A function of a head, a first and a last query to the masks' rows."""
    whole = [np.broadcast_to(m, (p.n, p.h, p.t, p.s)) for m in masks]
    return lambda item, first, end: [m[item // p.h, item % p.h, first:end] for m in whole]


@kernel("numpy", "attention_heads")
def attention_heads(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """softmax(q k^T scale) v for each head, with dropout of the weights."""
    if not _is_supported(*ins[:3]):
        return None
    p, e = _Heads(ins, attrs), ins[2].shape[3]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        q, k, v = inputs[:3]
        masks, key = split_attention_inputs(inputs[3:], p.rate)
        masks_of = _masks_of(masks, p)

        def work(start: int, stop: int) -> None:
            for piece in range(start, stop):
                item, (first, end) = piece // p.blocks, p.rows(piece % p.blocks)
                sample, head = divmod(item, p.h)
                weights, y = scratch_arrays(((end - first, p.s), p.dtype), ((end - first, e), p.dtype))
                p.weights(weights, q[sample, first:end, head], k[sample, :, head], masks_of(item, first, end), first)
                if p.rate:
                    weights *= p.factors(key[0], item, first, end - first)
                np.matmul(weights, v[sample, :, head], out=y)
                outputs[0][sample, first:end, head] = y

        parallel_for(work, p.n * p.h * p.blocks, 1, blas=True)

    return run


@kernel("numpy", "attention_heads_grad")
def attention_heads_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The gradients of queries, keys and values; the weights are computed again."""
    if not _is_supported(*ins[:4]):
        return None
    p = _Heads(ins[1:], attrs)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        g, q, k, v = inputs[:4]
        masks, key = split_attention_inputs(inputs[4:], p.rate)
        masks_of, (dq, dk, dv) = _masks_of(masks, p), outputs

        def head_gradients(item: int) -> None:
            sample, head = divmod(item, p.h)
            keys, values = k[sample, :, head], v[sample, :, head]
            sum_k, sum_v = np.zeros(keys.shape, p.dtype), np.zeros(values.shape, p.dtype)
            for block in range(p.blocks):
                first, end = p.rows(block)
                queries, grads = q[sample, first:end, head], g[sample, first:end, head]
                weights, by_scores = scratch_arrays(((end - first, p.s), p.dtype), ((end - first, p.s), p.dtype))
                p.weights(weights, queries, keys, masks_of(item, first, end), first)
                np.matmul(grads, values.T, out=by_scores)
                factors = p.factors(key[0], item, first, end - first) if p.rate else None
                if factors is not None:
                    by_scores *= factors
                by_scores -= np.einsum("ts,ts->t", by_scores, weights)[:, None]
                by_scores *= weights
                by_scores *= p.scale
                if factors is not None:
                    weights *= factors
                dq[sample, first:end, head] = by_scores @ keys
                sum_k += by_scores.T @ queries
                sum_v += weights.T @ grads
            dk[sample, :, head], dv[sample, :, head] = sum_k, sum_v

        def work(start: int, stop: int) -> None:
            for item in range(start, stop):
                head_gradients(item)

        parallel_for(work, p.n * p.h, 1, blas=True)

    return run
