"""Softmax, the losses based on it, and attention weights: one block of threads for each row."""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.candidates import candidate_enabled
from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    block_size_for,
    c_type,
    contiguous_strides,
    cuda_kernel,
    index_scalar,
    kernel_source,
    per_block_launch,
)
from prototorch.cuda.kernels.row_per_warp import row_launch
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = ["masked_softmax"]

Specs = tuple[Spec, ...]


def _row_launch(name: str, x: Spec, inner: int, n: int, *args: Any, label: str = "i32") -> LaunchSequence | None:
    if not x.is_float or n >= 1 << 31:
        return None
    if inner == 1 and candidate_enabled("row_per_warp"):
        kernel = f"{name.removesuffix('_grad')}_rows{'_grad' if name.endswith('_grad') else ''}"
        launch = row_launch("softmax_rows", kernel, x, n, *args, L=label)
        if launch is not None:
            return LaunchSequence(launch)
    rows = x.size // n
    source = kernel_source("softmax", x.size, X=c_type(x), L=label, INNER=inner)
    return LaunchSequence(
        per_block_launch(source, name, rows, index_scalar(rows, x.size), np.int32(n), *args, block=block_size_for(n))
    )


def _row_geometry(x: Spec, attrs: dict[str, Any]) -> tuple[int, int]:
    """How far the elements of a row lie from each other, and how many there are."""
    (axis,) = normalize_axes(attrs.get("axis", -1), x.ndim)
    return prod(x.shape[axis + 1 :]), x.shape[axis]


@cuda_kernel("softmax")
def softmax(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Softmax along an axis."""
    return _row_launch("softmax", ins[0], *_row_geometry(ins[0], attrs), InputArg(0), OutputArg(0))


@cuda_kernel("log_softmax")
def log_softmax(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Its logarithm."""
    return _row_launch("log_softmax", ins[0], *_row_geometry(ins[0], attrs), InputArg(0), OutputArg(0))


@cuda_kernel("softmax_grad")
def softmax_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The gradient of softmax from its output."""
    if len({s.dtype for s in (*ins, *outs)}) > 1:
        return None
    return _row_launch("softmax_grad", ins[0], *_row_geometry(ins[0], attrs), InputArg(0), InputArg(1), OutputArg(0))


@cuda_kernel("sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The loss from logits and labels; NaN for a label that does not exist."""
    x, labels = ins
    return _row_launch(
        "sparse_softmax_cross_entropy", x, 1, x.shape[-1], InputArg(0), InputArg(1), OutputArg(0), label=c_type(labels)
    )


@cuda_kernel("sparse_softmax_cross_entropy_grad")
def sparse_softmax_cross_entropy_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The gradient of that loss by the logits."""
    g, x, labels = ins
    if g.dtype != x.dtype:
        return None
    name = "sparse_softmax_cross_entropy_grad"
    return _row_launch(
        name, x, 1, x.shape[-1], InputArg(0), InputArg(1), InputArg(2), OutputArg(0), label=c_type(labels)
    )


def masked_softmax(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Scores to the weights of attention, over themselves: scaled, masked, normalised. ins: those of the op."""
    q, _, *masks = ins
    _, heads, queries, keys = outs[0].shape
    scale = attrs.get("scale")
    number = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    mask_args: tuple[Any, ...] = (np.uint64(0), *(np.int64(0),) * 4)
    if masks:
        strides, skip = contiguous_strides(masks[0]), 4 - masks[0].ndim
        steps = [0 if a < skip or masks[0].shape[a - skip] == 1 else strides[a - skip] for a in range(4)]
        mask_args = (InputArg(2), *map(np.int64, steps))
    acc_type = np.float64 if q.dtype == "float64" else np.float32
    causal = np.int32(attrs.get("causal", False))
    args = (OutputArg(0), OutputArg(0), acc_type(number), np.int32(queries), np.int32(heads), causal, *mask_args)
    sequence = _row_launch("attend", outs[0], 1, keys, *args)
    if sequence is not None:
        sequence.layouts = (None,) * len(ins)
    return sequence
