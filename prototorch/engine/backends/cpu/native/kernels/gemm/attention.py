"""Attention without the matrix of all scores: a block of its rows at a time, which stays in the cache.

A work item is one head of one sample, or a block of its queries. Keys are transposed once for it, so that the scores of
a row are vectors along the keys. A block holds whole rows, so that softmax is the usual one: maximum, exponentials and
their sum. The gradient recomputes the weights (Chen et al., 2016; Rabe and Staats, 2021), in a plan from statistics
that the forward pass saves (Dao et al., 2022), and adds to those of keys and values block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native import exp_log
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear
from prototorch.engine.backends.cpu.native.kernels.common.random import site_argument
from prototorch.engine.backends.cpu.native.kernels.common.row_dropout import row_bytes, row_dropout
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_microkernel import (
    MatrixView,
    multiply_in_cache,
    tile_height,
    transpose_into,
)
from prototorch.engine.backends.cpu.native.kernels.reduce.softmax import sum_row
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.attention import split_attention_inputs
from prototorch.ops.attention_with_stats import NO_KEY_STATISTIC
from prototorch.spec import Spec

__all__ = ["AttentionScores", "AttentionShape", "attention_shape", "block_rows"]

_MASKED_SCORE = -1e9  # as in the op's reference implementation
#: scores of a block; heads from which on a head is one work item
_BLOCK, _HEADS = 1 << 16, 16


class AttentionShape(NamedTuple):
    """q [n, t, h, d], k [n, s, h, d], v [n, s, h, e]; ``query_block`` queries at a time, ``items_per_head`` work
    items; the masks' shapes as they broadcast to [n, h, t, s]."""

    n: int
    t: int
    s: int
    h: int
    d: int
    e: int
    scale: float
    causal: bool
    masks: tuple[tuple[int, ...], ...]
    query_block: int
    items_per_head: int
    dropout: tuple[int, float] | None = None  #: the threshold of random bits, and the factor of what is kept

    @property
    def inputs(self) -> int:
        """The number of masks and of random keys."""
        return len(self.masks) + (self.dropout is not None)

    @property
    def dropout_bytes(self) -> int:
        """Scratch memory for the random words of a row."""
        return 0 if self.dropout is None else row_bytes(self.s)

    @property
    def score_stride(self) -> int:
        """Elements between rows of scores in scratch memory."""
        lanes = vector_lanes("float32")
        return -(-self.s // lanes) * lanes

    @property
    def skips_future_keys(self) -> bool:
        """Whether keys after the last query of a block can be skipped."""
        return self.causal and not self.masks and self.s >= self.t


def attention_shape(ins: Specs, attrs: Attrs, uncut: bool) -> AttentionShape | None:
    """Return the shapes and the tiling, or None for other than float32. ``uncut``: a head is one work item."""
    q, k, v = ins[:3]
    rate = attrs.get("rate", 0.0)
    masks, _ = split_attention_inputs(ins[3:], rate)
    if any(s.dtype != "float32" for s in (q, k, v)):
        return None
    n, t, h, d = q.shape
    s, causal, scale = k.shape[1], bool(attrs.get("causal")), attrs.get("scale")
    mask_shapes = tuple((1,) * (4 - m.ndim) + m.shape for m in masks)
    most = max(min(_BLOCK // s, 32 if causal else 128, t), 1)
    height = tile_height(t, s, vector_lanes("float32"))
    even = (b for b in range(most, most // 2, -1) if t % b == 0 and b % height == 0)
    block = next(even, max(most // height * height, min(height, t)))
    num_blocks = 1 if uncut or n * h >= _HEADS else -(-t // block)
    scale = 1 / math.sqrt(d) if scale is None else float(scale)
    dropout = (round(rate * 65536), 1 / (1 - rate)) if rate else None
    return AttentionShape(n, t, s, h, d, v.shape[3], scale, causal, mask_shapes, block, num_blocks, dropout)


class AttentionScores:
    """The rows of weights of a block of queries, in scratch memory."""

    def __init__(self, k: KernelBuilder, p: AttentionShape, masks: list[Pointer], keys: Pointer, weights: Pointer):
        self.k, self.p, self.masks, self.keys, self.weights = k, p, masks, keys, weights
        self.height = tile_height(p.query_block if p.t % p.query_block == 0 else p.t, p.s, k.lanes)

    def visible_keys(self, first: Int64, rows: Index) -> Any:
        """Return how many keys the block's queries may see: an int, or an Int where it depends on the block."""
        p = self.p
        return (first + rows + (p.s - p.t)).minimum(p.s) if p.skips_future_keys else p.s

    def multiply(self, x: MatrixView, w: Pointer, depth: int, rows: Index, visible: Any, to: Pointer) -> None:
        """Multiply x [rows, depth] with the transposed matrix into rows of scratch memory."""
        p, k = self.p, self.k
        multiply_in_cache(
            k,
            rows,
            self.height,
            p.s,
            depth,
            x,
            MatrixView(w, 1, p.score_stride),
            lambda r, c, value, mask: to.store(value, r * p.score_stride + c),
            None,
            True,
            visible if isinstance(visible, Int64) else None,
        )

    def masked_row(self, row: Int64, query: Int64, sample: Int64, head: Int64) -> Callable[[Int64, Mask], Num]:
        """Return a function that loads a vector of a row's products as scores, with those of hidden keys replaced."""
        k, p = self.k, self.p
        line = self.weights + row * p.score_stride
        masks = [self._mask_row(m, shape, sample, head, query) for m, shape in zip(self.masks, p.masks, strict=True)]
        far = k.num(_MASKED_SCORE).splat(k.lanes)

        def score(i: Int64, mask: Mask) -> Num:
            value = line.load(i, k.lanes) * p.scale
            if p.causal:
                key_index = k.iota(k.lanes) + k.num(i, "int32").splat(k.lanes)
                value = k.select(key_index <= k.num(query + (p.s - p.t), "int32").splat(k.lanes), value, far)
            for m, shape in zip(masks, p.masks, strict=True):
                is_allowed = m.load(i, k.lanes, mask) if shape[3] > 1 else m.load().splat(k.lanes)
                value = k.select(is_allowed, value, far)
            return value

        return score

    def softmax(self, row: Int64, query: Int64, sample: Int64, head: Int64, visible: Any) -> tuple[Num, Num]:
        """Replace a row's products by exp(score - max); return their sum, and the largest score."""
        k = self.k
        line = self.weights + row * self.p.score_stride
        best = k.variable(k.num(float("-inf")).splat(k.lanes))
        score = self.masked_row(row, query, sample, head)

        def compare(i: Int64, mask: Mask) -> None:
            value = score(i, mask)
            line.store(value, i)
            larger = value > best.value
            best.value = k.select(larger if mask is None else larger & mask, value, best.value)

        k.for_each_vector(visible, compare)
        top = k.reduce_max(best.value)

        def power(i: Int64, mask: Mask) -> Num:
            e = exp_log.exp(k, line.load(i, k.lanes) - top)
            line.store(e, i)
            return e

        return sum_row(k, visible, power), top

    def _mask_row(self, mask: Pointer, shape: tuple[int, ...], *at: Int64) -> Pointer:
        for axis, i in enumerate(at):
            if shape[axis] > 1:
                mask = mask + i * prod(shape[axis + 1 :])
        return mask


def _for_each_head(k: KernelBuilder, p: AttentionShape, work: Any) -> None:
    """Emit ``work(sample, head, first block, end of the blocks)`` for each work item."""
    blocks = -(-p.t // p.query_block)
    with k.range(k.first, k.last) as item:
        one = item // p.items_per_head
        if p.items_per_head == 1:
            work(one // p.h, one % p.h, 0, blocks)
        else:
            block = item % p.items_per_head
            work(one // p.h, one % p.h, block, block + 1)


def block_rows(p: AttentionShape, first: Int64) -> Any:
    return p.query_block if p.t % p.query_block == 0 else (p.t - first).minimum(p.query_block)


def _forward(k: KernelBuilder, p: AttentionShape, saves_stats: bool) -> None:
    q, key, v = (k.pointer(i) for i in range(3))
    stats = k.pointer(4 + p.inputs) if saves_stats else None
    out, masks = k.pointer(3 + p.inputs), [k.pointer(3 + i, "bool") for i in range(len(p.masks))]
    keys, weights = k.local, k.local + p.d * p.score_stride
    words = weights + p.query_block * p.score_stride
    factors = words + p.dropout_bytes // 4
    dropout = row_dropout(k, p.dropout, 2 + p.inputs, words, outputs=1 + saves_stats)
    scores = AttentionScores(k, p, masks, keys, weights)
    height = tile_height(p.query_block if p.t % p.query_block == 0 else p.t, p.e, k.lanes)

    def work(sample: Int64, head: Int64, begin: Index, end: Index) -> None:
        transpose_into(k, key + (sample * (p.s * p.h * p.d) + head * p.d), p.s, p.d, p.h * p.d, keys, p.score_stride)
        values = v + (sample * (p.s * p.h * p.e) + head * p.e)
        with k.range(begin, end) as block:
            first = block * p.query_block
            rows = block_rows(p, first)
            visible = scores.visible_keys(first, rows)
            x = q + ((sample * p.t + first) * (p.h * p.d) + head * p.d)
            y = out + ((sample * p.t + first) * (p.h * p.e) + head * p.e)
            scores.multiply(MatrixView(x, p.h * p.d, 1), keys, p.d, rows, visible, weights)
            with k.range(rows) as row:
                total, top = scores.softmax(row, first + row, sample, head, visible)
                factors.store(k.num(1.0) / total, row)
                if stats is not None:
                    stat = k.select(top < NO_KEY_STATISTIC, top, top + exp_log.log(k, total))
                    stats.store(stat, (sample * p.h + head) * p.t + first + row)
                if dropout is not None:
                    dropout.draw(((sample * p.h + head) * p.t + first + row) * p.s, visible)
                    line = weights + row * p.score_stride
                    k.for_each_vector(visible, lambda i, _: line.store(line.load(i, k.lanes) * dropout.factors(i), i))

            def store(r: Index, c: Index, value: Num, mask: Mask) -> None:
                y.store(value * factors.load(r), r * (p.h * p.e) + c, mask)

            multiply_in_cache(
                k,
                rows,
                height,
                p.e,
                visible,
                MatrixView(weights, p.score_stride, 1),
                MatrixView(values, 1, p.h * p.e),
                store,
            )

    _for_each_head(k, p, work)


@native_kernel("attention_heads")
def attention_heads(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """softmax(q k^T scale) v for each head; with a second output also the statistics of the rows."""
    p = attention_shape(ins, attrs, False)
    if p is None:
        return None
    kernel, items = kernel_code(_forward, p, len(outs) > 1), p.n * p.h * p.items_per_head
    local = 4 * ((p.d + p.query_block) * p.score_stride + p.query_block) + p.dropout_bytes
    grain = items if p.n * p.h * p.t * p.s * (p.d + p.e) < 1 << 16 else 1
    site = _site_arguments(p, attrs)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o, *site), items, grain, local)])


native_kernel("attention_heads_with_stats")(attention_heads)


def _site_arguments(p: AttentionShape, attrs: Attrs) -> tuple[int, ...]:
    return () if p.dropout is None else (site_argument(attrs["site"]),)


def _backward(k: KernelBuilder, p: AttentionShape, has_stats: bool) -> None:
    g, q, key, v = (k.pointer(i) for i in range(4))
    masks = [k.pointer(4 + i, "bool") for i in range(len(p.masks))]
    first_output = 4 + p.inputs + 2 * has_stats
    y, stats = k.pointer(first_output - 2), k.pointer(first_output - 1)  # with has_stats
    dq, dk, dv = (k.pointer(first_output + i) for i in range(3))
    keys, values = k.local, k.local + p.d * p.score_stride
    weights = values + p.e * p.score_stride
    score_grads = weights + p.query_block * p.score_stride
    dropout = row_dropout(
        k, p.dropout, 3 + p.inputs, score_grads + p.query_block * p.score_stride, outputs=3 + 2 * has_stats
    )
    scores = AttentionScores(k, p, masks, keys, weights)
    height_d = tile_height(p.query_block if p.t % p.query_block == 0 else p.t, p.d, k.lanes)

    def softmax_grad_from_stats(row: Int64, query: Int64, sample: Int64, head: Int64, visible: Any) -> None:
        """Replace a row's products by weights and their gradient by that of the scores, in one sweep."""
        line, grad_line = weights + row * p.score_stride, score_grads + row * p.score_stride
        stat = stats.load((sample * p.h + head) * p.t + query)
        factor = k.select(stat < NO_KEY_STATISTIC, k.num(1 / p.s), k.num(1.0))
        at = ((sample * p.t + query) * p.h + head) * p.e
        dot = sum_row(k, p.e, lambda i, mask: (g + at).load(i, k.lanes, mask) * (y + at).load(i, k.lanes, mask))
        score = scores.masked_row(row, query, sample, head)

        def weigh(i: Int64, mask: Mask) -> None:
            weight, grad = exp_log.exp(k, score(i, mask) - stat) * factor, grad_line.load(i, k.lanes)
            keep_factor = k.num(1.0) if dropout is None else dropout.factors(i)
            grad_line.store((grad * keep_factor - dot) * weight * p.scale, i)
            line.store(weight * keep_factor, i)

        k.for_each_vector(visible, weigh)

    def softmax_grad(row: Int64, total: Num, visible: Any) -> None:
        """Normalize the weights, and replace their gradient by that of the scores; drop weights out."""
        line, grad_line, factor = weights + row * p.score_stride, score_grads + row * p.score_stride, k.num(1.0) / total

        def weigh(i: Int64, mask: Mask) -> Num:
            weight, grad = line.load(i, k.lanes) * factor, grad_line.load(i, k.lanes)
            line.store(weight, i)
            if dropout is not None:
                grad = grad * dropout.factors(i)
                grad_line.store(grad, i)
            return weight * grad

        dot = sum_row(k, visible, weigh)

        def finish(i: Int64, mask: Mask) -> None:
            weight = line.load(i, k.lanes)
            grad_line.store((grad_line.load(i, k.lanes) - dot) * weight * p.scale, i)
            if dropout is not None:
                line.store(weight * dropout.factors(i), i)

        k.for_each_vector(visible, finish)

    def work(sample: Int64, head: Int64, begin: Index, end: Index) -> None:
        sd, se = p.h * p.d, p.h * p.e
        at_k, at_v = sample * (p.s * sd) + head * p.d, sample * (p.s * se) + head * p.e
        transpose_into(k, key + at_k, p.s, p.d, sd, keys, p.score_stride)
        transpose_into(k, v + at_v, p.s, p.e, se, values, p.score_stride)
        with k.range(p.s) as row:
            clear(k, dk + at_k + row * sd, p.d)
            clear(k, dv + at_v + row * se, p.e)
        with k.range(begin, end) as block:
            first = block * p.query_block
            rows = block_rows(p, first)
            visible = scores.visible_keys(first, rows)
            at_q, at_g = (sample * p.t + first) * sd + head * p.d, (sample * p.t + first) * se + head * p.e
            scores.multiply(MatrixView(q + at_q, sd, 1), keys, p.d, rows, visible, weights)
            scores.multiply(MatrixView(g + at_g, se, 1), values, p.e, rows, visible, score_grads)
            with k.range(rows) as row:
                if dropout is not None:
                    dropout.draw(((sample * p.h + head) * p.t + first + row) * p.s, visible)
                if has_stats:
                    softmax_grad_from_stats(row, first + row, sample, head, visible)
                else:
                    softmax_grad(row, scores.softmax(row, first + row, sample, head, visible)[0], visible)
            dq_block = dq + at_q
            multiply_in_cache(
                k,
                rows,
                height_d,
                p.d,
                visible,
                MatrixView(score_grads, p.score_stride, 1),
                MatrixView(key + at_k, 1, sd),
                lambda r, c, value, mask: dq_block.store(value, r * sd + c, mask),
            )
            _add_transposed_product(k, p, rows, visible, score_grads, MatrixView(q + at_q, 1, sd), dk + at_k, p.d, sd)
            _add_transposed_product(k, p, rows, visible, weights, MatrixView(g + at_g, 1, se), dv + at_v, p.e, se)

    _for_each_head(k, p, work)


def _add_transposed_product(
    k: KernelBuilder,
    p: AttentionShape,
    rows: Index,
    visible: Index,
    x: Pointer,
    w: MatrixView,
    to: Pointer,
    n: int,
    step: int,
) -> None:
    """Add the transpose of x [rows, keys] times w [rows, n] to [keys, n]."""
    height = tile_height(p.s if isinstance(visible, int) else p.query_block, n, k.lanes)
    multiply_in_cache(
        k,
        visible,
        height,
        n,
        rows,
        MatrixView(x, 1, p.score_stride),
        w,
        lambda r, c, value, mask: to.store(value, r * step + c, mask),
        lambda r, c, mask: to.load(r * step + c, k.lanes, mask),
    )


@native_kernel("attention_heads_grad")
def attention_heads_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of queries, keys and values."""
    return _grad_tasks(ins[0], ins[1:], attrs, False)


@native_kernel("attention_heads_with_stats_grad")
def attention_heads_with_stats_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of queries, keys and values from the statistics of the rows."""
    return _grad_tasks(ins[0], ins[1:-2], attrs, True)


def _grad_tasks(g: Spec, forward_ins: Specs, attrs: Attrs, has_stats: bool) -> TaskList | None:
    p = attention_shape(forward_ins, attrs, True)
    if p is None or g.dtype != "float32":
        return None
    kernel, items = kernel_code(_backward, p, has_stats), p.n * p.h
    local = 4 * (p.d + p.e + 2 * p.query_block) * p.score_stride + p.dropout_bytes
    grain = items if p.n * p.h * p.t * p.s * (p.d + p.e) < 1 << 15 else 1
    site = _site_arguments(p, attrs)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o, *site), items, grain, local)])
