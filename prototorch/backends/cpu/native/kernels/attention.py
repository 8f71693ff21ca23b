"""Attention without the matrix of all scores: some rows of it at a time, which stay in the cache.

An item is one head of one sample, or a block of its queries. Keys are turned once for it, so that the scores of a row
are vectors along the keys. The gradient computes the weights again and adds to those of keys and values block by block.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.cpu.native import special
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.products import Matrix, height_of, multiply, turned
from prototorch.backends.cpu.native.kernels.softmax import summed
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_FAR = -1e9  # as in the op
#: scores of a block, and heads that are enough to share among threads without cutting them
_BLOCK, _HEADS = 1 << 16, 16


class Shape(NamedTuple):
    """q [n, t, h, d], k [n, s, h, d], v [n, s, h, e]; ``block`` queries at a time, ``cut`` items a head; the masks'
    shapes as they broadcast to [n, h, t, s]."""

    n: int
    t: int
    s: int
    h: int
    d: int
    e: int
    scale: float
    causal: bool
    masks: tuple[tuple[int, ...], ...]
    block: int
    cut: int

    @property
    def width(self) -> int:
        """Numbers between rows of scores in scratch memory."""
        lanes = lanes_of("float32")
        return -(-self.s // lanes) * lanes

    @property
    def short(self) -> bool:
        """Whether keys after the last query of a block need not be looked at."""
        return self.causal and not self.masks and self.s >= self.t


def shape_of(ins: tuple[Spec, ...], attrs: dict[str, Any], whole: bool) -> Shape | None:
    """``whole``: a head is not cut into items."""
    q, k, v, *masks = ins
    if any(s.dtype != "float32" for s in (q, k, v)):
        return None
    n, t, h, d = q.shape
    s, causal, scale = k.shape[1], bool(attrs.get("causal")), attrs.get("scale")
    wide = tuple((1,) * (4 - m.ndim) + m.shape for m in masks)
    most = max(min(_BLOCK // s, 32 if causal else 128, t), 1)
    height = height_of(t, s, lanes_of("float32"))
    even = (b for b in range(most, most // 2, -1) if t % b == 0 and b % height == 0)
    block = next(even, max(most // height * height, min(height, t)))
    cut = 1 if whole or n * h >= _HEADS else -(-t // block)
    scale = 1 / math.sqrt(d) if scale is None else float(scale)
    return Shape(n, t, s, h, d, v.shape[3], scale, causal, wide, block, cut)


class Scores:
    """The rows of weights of a block of queries, in scratch memory."""

    def __init__(self, k: Kernel, p: Shape, masks: list[Pointer], turned_keys: Pointer, weights: Pointer):
        self.k, self.p, self.masks, self.keys, self.weights = k, p, masks, turned_keys, weights
        self.height = height_of(p.block if p.t % p.block == 0 else p.t, p.s, k.lanes)

    def keys_of(self, first: Int, rows: Any) -> Any:
        """How many keys the block's queries may see: a number, or an Int where it depends on the block."""
        p = self.p
        return (first + rows + (p.s - p.t)).minimum(p.s) if p.short else p.s

    def products(self, x: Matrix, turned_: Pointer, depth: int, rows: Any, seen: Any, to: Pointer) -> None:
        """x [rows, depth] times what was turned, to rows of scratch memory."""
        p, k = self.p, self.k
        multiply(k, rows, self.height, p.s, depth, x, Matrix(turned_, 1, p.width),
                 lambda r, c, value, mask: to.store(value, r * p.width + c), None, True,
                 seen if isinstance(seen, Int) else None)  # fmt: skip

    def softmax(self, row: Int, query: Int, sample: Int, head: Int, seen: Any) -> Num:
        """exp(score - top) in place of a row's products; gives the sum."""
        k, p = self.k, self.p
        line = self.weights + row * p.width
        best = k.variable(k.num(float("-inf")).splat(k.lanes))
        masks = [self._mask_row(m, shape, sample, head, query) for m, shape in zip(self.masks, p.masks, strict=True)]
        far = k.num(_FAR).splat(k.lanes)

        def score(i: Int, mask: Num | None) -> None:
            value = line.load(i, k.lanes) * p.scale
            if p.causal:
                place = k.iota(k.lanes) + k.num(i, "int32").splat(k.lanes)
                value = k.select(place <= k.num(query + (p.s - p.t), "int32").splat(k.lanes), value, far)
            for m, shape in zip(masks, p.masks, strict=True):
                open_ = m.load(i, k.lanes, mask) if shape[3] > 1 else m.load().splat(k.lanes)
                value = k.select(open_, value, far)
            line.store(value, i)
            larger = value > best.value
            best.value = k.select(larger if mask is None else larger & mask, value, best.value)

        k.vectors(seen, score)
        top = k.largest(best.value)

        def power(i: Int, mask: Num | None) -> Num:
            e = special.exp(k, line.load(i, k.lanes) - top)
            line.store(e, i)
            return e

        return summed(k, seen, power)

    def _mask_row(self, mask: Pointer, shape: tuple[int, ...], *at: Int) -> Pointer:
        for axis, i in enumerate(at):
            if shape[axis] > 1:
                mask = mask + i * prod(shape[axis + 1 :])
        return mask


def _heads(k: Kernel, p: Shape, work: Any) -> None:
    """``work(sample, head, first block, end of the blocks)`` for each item."""
    blocks = -(-p.t // p.block)
    with k.range(k.first, k.last) as item:
        one = item // p.cut
        if p.cut == 1:
            work(one // p.h, one % p.h, 0, blocks)
        else:
            block = item % p.cut
            work(one // p.h, one % p.h, block, block + 1)


def rows_of(p: Shape, first: Int) -> Any:
    return p.block if p.t % p.block == 0 else (p.t - first).minimum(p.block)


def _forward(k: Kernel, p: Shape) -> None:
    q, key, v = (k.pointer(i) for i in range(3))
    out, masks = k.pointer(3 + len(p.masks)), [k.pointer(3 + i, "bool") for i in range(len(p.masks))]
    keys, weights = k.local, k.local + p.d * p.width
    factors = weights + p.block * p.width
    scores = Scores(k, p, masks, keys, weights)
    height = height_of(p.block if p.t % p.block == 0 else p.t, p.e, k.lanes)

    def work(sample: Int, head: Int, begin: Any, end: Any) -> None:
        turned(k, key + (sample * (p.s * p.h * p.d) + head * p.d), p.s, p.d, p.h * p.d, keys, p.width)
        values = v + (sample * (p.s * p.h * p.e) + head * p.e)
        with k.range(begin, end) as block:
            first = block * p.block
            rows = rows_of(p, first)
            seen = scores.keys_of(first, rows)
            x = q + ((sample * p.t + first) * (p.h * p.d) + head * p.d)
            y = out + ((sample * p.t + first) * (p.h * p.e) + head * p.e)
            scores.products(Matrix(x, p.h * p.d, 1), keys, p.d, rows, seen, weights)
            with k.range(rows) as row:
                factors.store(k.num(1.0) / scores.softmax(row, first + row, sample, head, seen), row)

            def store(r: Any, c: Any, value: Num, mask: Num | None) -> None:
                y.store(value * factors.load(r), r * (p.h * p.e) + c, mask)

            multiply(k, rows, height, p.e, seen, Matrix(weights, p.width, 1), Matrix(values, 1, p.h * p.e), store)

    _heads(k, p, work)


@native("attention_heads")
def attention_heads(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """softmax(q k^T scale) v for each head."""
    p = shape_of(ins, attrs, False)
    if p is None:
        return None
    made, items = code(_forward, p), p.n * p.h * p.cut
    local = 4 * ((p.d + p.block) * p.width + p.block)
    grain = items if p.n * p.h * p.t * p.s * (p.d + p.e) < 1 << 16 else 1
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain, local)])


def _backward(k: Kernel, p: Shape) -> None:
    g, q, key, v = (k.pointer(i) for i in range(4))
    masks = [k.pointer(4 + i, "bool") for i in range(len(p.masks))]
    dq, dk, dv = (k.pointer(4 + len(masks) + i) for i in range(3))
    keys, values = k.local, k.local + p.d * p.width
    weights = values + p.e * p.width
    slopes = weights + p.block * p.width
    scores = Scores(k, p, masks, keys, weights)
    height_d = height_of(p.block if p.t % p.block == 0 else p.t, p.d, k.lanes)

    def slope(row: Int, total: Num, seen: Any) -> None:
        """The weights, and the gradient of the scores in place of that of the weights."""
        line, rise, factor = weights + row * p.width, slopes + row * p.width, k.num(1.0) / total

        def weigh(i: Int, mask: Num | None) -> Num:
            weight = line.load(i, k.lanes) * factor
            line.store(weight, i)
            return weight * rise.load(i, k.lanes)

        dot = summed(k, seen, weigh)
        k.vectors(
            seen,
            lambda i, mask: rise.store((rise.load(i, k.lanes) - dot) * line.load(i, k.lanes) * p.scale, i),
        )

    def work(sample: Int, head: Int, begin: Any, end: Any) -> None:
        sd, se = p.h * p.d, p.h * p.e
        at_k, at_v = sample * (p.s * sd) + head * p.d, sample * (p.s * se) + head * p.e
        turned(k, key + at_k, p.s, p.d, sd, keys, p.width)
        turned(k, v + at_v, p.s, p.e, se, values, p.width)
        with k.range(p.s) as row:
            _clear(k, dk + at_k + row * sd, p.d)
            _clear(k, dv + at_v + row * se, p.e)
        with k.range(begin, end) as block:
            first = block * p.block
            rows = rows_of(p, first)
            seen = scores.keys_of(first, rows)
            at_q, at_g = (sample * p.t + first) * sd + head * p.d, (sample * p.t + first) * se + head * p.e
            scores.products(Matrix(q + at_q, sd, 1), keys, p.d, rows, seen, weights)
            scores.products(Matrix(g + at_g, se, 1), values, p.e, rows, seen, slopes)
            with k.range(rows) as row:
                slope(row, scores.softmax(row, first + row, sample, head, seen), seen)
            here = dq + at_q
            multiply(k, rows, height_d, p.d, seen, Matrix(slopes, p.width, 1), Matrix(key + at_k, 1, sd),
                     lambda r, c, value, mask: here.store(value, r * sd + c, mask))  # fmt: skip
            _add(k, p, rows, seen, slopes, Matrix(q + at_q, 1, sd), dk + at_k, p.d, sd)
            _add(k, p, rows, seen, weights, Matrix(g + at_g, 1, se), dv + at_v, p.e, se)

    _heads(k, p, work)


def _clear(k: Kernel, row: Pointer, n: int) -> None:
    k.vectors(n, lambda i, mask: row.store(k.zero(k.lanes), i, mask))


def _add(k: Kernel, p: Shape, rows: Any, seen: Any, x: Pointer, w: Matrix, to: Pointer, n: int, step: int) -> None:
    """Add x [rows, keys], turned, times w [rows, n] to [keys, n]."""
    height = height_of(p.s if isinstance(seen, int) else p.block, n, k.lanes)
    multiply(k, seen, height, n, rows, Matrix(x, 1, p.width), w,
             lambda r, c, value, mask: to.store(value, r * step + c, mask),
             lambda r, c, mask: to.load(r * step + c, k.lanes, mask))  # fmt: skip


@native("attention_heads_grad")
def attention_heads_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The gradients of queries, keys and values."""
    p = shape_of(ins[1:], attrs, True)
    if p is None or ins[0].dtype != "float32":
        return None
    made, items = code(_backward, p), p.n * p.h
    local = 4 * (p.d + p.e + 2 * p.block) * p.width
    grain = items if p.n * p.h * p.t * p.s * (p.d + p.e) < 1 << 15 else 1
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain, local)])
