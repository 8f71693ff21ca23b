"""Softmax, cross-entropy and attention weights: rows in blocks that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.reduce import sum_rows
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

_BLOCK_ELEMENTS = 1 << 16  # elements that are processed together


def _has_blas_dtype(*specs: Spec) -> bool:
    return all(s.dtype in ("float32", "float64") for s in specs)


def _sum(x: Any, axis: int, out: Any) -> None:
    """Sums along the middle axis of [m, k, r], kept with size 1."""
    if x.shape[2] == 1:
        sum_rows(x.reshape(x.shape[0], x.shape[1]), out.reshape(-1))
    else:
        np.add.reduce(x, axis=1, keepdims=True, out=out)


def _make_row_kernel(body: Callable[..., None], shape: tuple[int, ...], axis: int) -> KernelFn:
    """A kernel for ``body(*inputs, output, small)`` on blocks [m, k, r] whose axis is the middle one; small is [m, 1,
    r]."""
    m, k, r = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    grain = max(_BLOCK_ELEMENTS // max(k * r, 1), 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        arrays = [a.reshape(m, k, r) for a in (*inputs, *outputs)]

        def work(start: int, stop: int) -> None:
            (small,) = scratch_arrays(((stop - start, 1, r), arrays[0].dtype.name))
            body(*(a[start:stop] for a in arrays), small)

        parallel_for(work, m, grain, blas=True)

    return run


def _softmax(x: Any, y: Any, small: Any) -> None:
    np.maximum.reduce(x, axis=1, keepdims=True, out=small)
    np.subtract(x, small, out=y)
    np.exp(y, out=y)
    _sum(y, 1, small)
    np.divide(y, small, out=y)


def _softmax_grad(g: Any, y: Any, dx: Any, small: Any) -> None:
    (product,) = scratch_arrays((y.shape, y.dtype.name), use="exp")
    _sum(np.multiply(g, y, out=product), 1, small)
    np.subtract(g, small, out=dx)
    np.multiply(dx, y, out=dx)


def _register(name: str, body: Callable[..., None]) -> None:
    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        shape = outs[0].shape
        if not _has_blas_dtype(*ins) or not shape or 0 in shape or any(s.shape != shape for s in ins):
            return None
        (axis,) = normalize_axes(attrs.get("axis", -1), len(shape))
        return _make_row_kernel(body, shape, axis)


_register("softmax_grad", _softmax_grad)


@kernel("numpy", "sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]
) -> KernelFn | None:
    """log(sum(exp(x - top))) - (x[label] - top), row by row; NaN for a label that is no class."""
    x = ins[0]
    if not _has_blas_dtype(x) or not x.size:
        return None
    m, k = prod(x.shape[:-1]), x.shape[-1]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows, labels, loss = inputs[0].reshape(m, k), inputs[1].reshape(m), outputs[0].reshape(m)

        def work(start: int, stop: int) -> None:
            part, row_loss = rows[start:stop], loss[start:stop]
            e, top = scratch_arrays((part.shape, x.dtype), ((stop - start, 1), x.dtype))
            np.maximum.reduce(part, axis=1, keepdims=True, out=top)
            np.subtract(part, top, out=e)
            row_labels = labels[start:stop]
            is_class = (row_labels >= 0) & (row_labels < k)
            label_scores = e[np.arange(stop - start), np.where(is_class, row_labels, 0)]
            sum_rows(np.exp(e, out=e), row_loss)
            np.log(row_loss, out=row_loss)
            np.subtract(row_loss, label_scores, out=row_loss)
            row_loss[~is_class] = np.nan

        parallel_for(work, m, max(_BLOCK_ELEMENTS // k, 1), blas=True)

    return run


@kernel("numpy", "sparse_softmax_cross_entropy_grad")
def sparse_softmax_cross_entropy_grad(
    ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]
) -> KernelFn | None:
    """The softmax less 1 at the label, times g."""
    g, x = ins[:2]
    if not _has_blas_dtype(g, x) or not x.size:
        return None
    m, k = prod(x.shape[:-1]), x.shape[-1]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        grads, rows, labels = inputs[0].reshape(m, 1), inputs[1].reshape(m, k), inputs[2].reshape(m)
        dx = outputs[0].reshape(m, k)

        def work(start: int, stop: int) -> None:
            part, row_labels = dx[start:stop, :, None], labels[start:stop]
            (small,) = scratch_arrays(((stop - start, 1, 1), x.dtype))
            _softmax(rows[start:stop, :, None], part, small)
            inside = np.flatnonzero((row_labels >= 0) & (row_labels < k))
            dx[start:stop][inside, row_labels[inside]] -= 1
            np.multiply(dx[start:stop], grads[start:stop], out=dx[start:stop])

        parallel_for(work, m, max(_BLOCK_ELEMENTS // k, 1), blas=True)

    return run


@kernel("numpy", "attention_weights")
def attention_weights(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Per head: the product, the scale, the masks and the softmax while the scores are in the cache."""
    q, k = ins[:2]
    if not _has_blas_dtype(q, k) or 0 in outs[0].shape:
        return None
    n, h, t, s = outs[0].shape
    scale = attrs.get("scale")
    scale = np.asarray(1 / math.sqrt(q.shape[-1]) if scale is None else scale, q.dtype)
    masked_by_causality = np.tril(np.ones((t, s), bool), s - t) if attrs.get("causal") else None
    masked_by_causality = None if masked_by_causality is None else ~masked_by_causality
    masked_score = np.asarray(-1e9, q.dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        queries, keys = (a.reshape(n * h, *a.shape[2:]) for a in inputs[:2])
        masks = [np.broadcast_to(m, (n, h, t, s)) for m in inputs[2:]]
        scores = outputs[0].reshape(n * h, t, s)

        def work(start: int, stop: int) -> None:
            (small,) = scratch_arrays(((t, 1, 1), q.dtype))
            for i in range(start, stop):
                part = scores[i]
                np.matmul(queries[i], keys[i].T, out=part)
                np.multiply(part, scale, out=part)
                if masked_by_causality is not None:
                    np.copyto(part, masked_score, where=masked_by_causality)
                for mask in masks:
                    np.copyto(part, masked_score, where=~mask[i // h, i % h])
                _softmax(part[:, :, None], part[:, :, None], small)

        parallel_for(work, n * h, max(_BLOCK_ELEMENTS // (t * s), 1), blas=True)

    return run
