"""Images and sequences in other sizes: interpolation by a matrix for each axis, and its older names."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import ModelWarning, ShapeError, UsageError, warn_user
from prototorch.nn.arguments import as_sizes, check_input
from prototorch.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    map_axis,
)
from prototorch.ops.lazy_array import LazyArray

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", "area", *_RANKS)


def _cubic(d: float, a: float) -> float:
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def sampling_matrix(size: int, new_size: int, scale: float, mode: str, align_corners: bool) -> np.ndarray:
    """The matrix [new_size, size] of one axis, with PyTorch's positions. scale: old elements for each new one. Border
    elements are repeated; the cubic kernel is that of Keys with a = -0.75."""
    matrix = np.zeros((new_size, size))
    for i in range(new_size):
        if align_corners:
            at = i * (size - 1) / (new_size - 1) if new_size > 1 else 0.0
        else:
            at = (i + 0.5) * scale - 0.5
            at = at if mode == "cubic" else max(at, 0.0)
        low = math.floor(at)
        for k in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
            d = abs(at - low - k)
            weight = max(1 - d, 0.0) if mode == "linear" else _cubic(d, -0.75)
            matrix[i, min(max(low + k, 0), size - 1)] += weight
    return matrix


def antialiased_matrix(size: int, new_size: int, scale: float, mode: str, align_corners: bool) -> np.ndarray:
    """As `sampling_matrix`, with a kernel (cubic: a = -0.5) as wide as the pixels of the smaller image."""
    matrix = np.zeros((new_size, size))
    if align_corners:
        scale = (size - 1) / (new_size - 1) if new_size > 1 else 0.0
    width = max(scale, 1.0)
    support = (1 if mode == "linear" else 2) * width
    for i in range(new_size):
        centre = (i + 0.5) * scale
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), size)
        distances = [abs((k - centre + 0.5) / width) for k in range(first, last)]
        weights = np.array([max(1 - d, 0.0) if mode == "linear" else _cubic(d, -0.5) for d in distances])
        matrix[i, first:last] = weights / weights.sum()
    return matrix


def _sizes(x: Any, rank: int, size: Any, scale_factor: Any) -> tuple[tuple[int, ...], list[float | None]]:
    if (size is None) == (scale_factor is None):
        raise UsageError("interpolate: give one of size and scale_factor")
    if size is not None:
        return as_sizes(size, rank, "interpolate: size", 1), [None] * rank
    factors = scale_factor if isinstance(scale_factor, tuple | list) else (scale_factor,) * rank
    if len(factors) != rank:
        raise UsageError(f"interpolate: scale_factor must be one number or {rank}, got {scale_factor!r:.60}")
    new = tuple(math.floor(n * float(f)) for n, f in zip(x.shape[2:], factors, strict=True))
    if min(new) < 1:
        raise ShapeError(f"interpolate: scale_factor {scale_factor} leaves no elements of {list(x.shape)}")
    return new, [float(f) for f in factors]


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """[batch, channels, ...] with other spatial sizes: ``size``, or the old ones times ``scale_factor``.

    mode: "nearest", "nearest-exact", "area", "linear" (3 dimensions), "bilinear", "bicubic" (4), "trilinear" (5).
    align_corners: whether the corner elements keep their places. recompute_scale_factor: use the ratio of the sizes.
    antialias: for "bilinear" and "bicubic", which also take images of uint8 and round the result. Raises UsageError and
    ShapeError for what does not fit.
    """
    check_input(input, "interpolate")
    if mode not in _MODES:
        raise UsageError(f"interpolate: mode must be one of {', '.join(map(repr, _MODES))}, got {mode!r:.60}")
    rank = input.ndim - 2
    if not 1 <= rank <= 3 or _RANKS.get(mode, rank) != rank:
        expected = f"{_RANKS[mode] + 2}" if mode in _RANKS else "3 to 5"
        raise ShapeError(f"interpolate: mode {mode!r} needs an input of {expected} dimensions, got {list(input.shape)}")
    if mode not in _RANKS and align_corners is not None:
        raise UsageError(f"interpolate: align_corners does not go with mode {mode!r}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise UsageError(f"interpolate: antialias goes with modes 'bilinear' and 'bicubic', not {mode!r}")
    new, factors = _sizes(input, rank, size, scale_factor)
    if recompute_scale_factor:
        if scale_factor is None:
            raise UsageError("interpolate: recompute_scale_factor needs a scale_factor")
        factors = [None] * rank
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1](input, new)
    x = input
    is_image = mode in _RANKS and not x.spec.is_float
    axes = list(enumerate(zip(new, factors, strict=True)))
    if is_image:
        if str(x.dtype) != "uint8" or rank != 2:
            raise UsageError(
                f"interpolate: mode {mode!r} needs floating-point elements (images also uint8), got {x.dtype!r}"
            )
        x = ops.cast(x, dtype="float32")
        axes.reverse()  # rows first, each axis rounded, as PyTorch does
    for k, (n, factor) in axes:
        have = x.shape[2 + k]
        scale = have / n if factor is None else 1 / factor
        if mode in ("nearest", "nearest-exact"):
            shift = 0.5 if mode == "nearest-exact" else 0.0
            at = tuple(min(math.floor(np.float32(i + shift) * np.float32(scale)), have - 1) for i in range(n))
            x = x if at == tuple(range(have)) else ops.static_gather(x, indices=at, axis=2 + k)
            continue
        if have == n and (align_corners or scale == 1):
            continue
        compute = antialiased_matrix if antialias else sampling_matrix
        kind = "cubic" if mode == "bicubic" else "linear"
        build = partial(compute, have, n, scale, kind, bool(align_corners))
        x = map_axis(x, LazyArray((n, have), str(x.dtype), build), 2 + k)
        if is_image:
            x = ops.clip(FUNCTIONS["floor"](x + 0.5), low=0.0, high=255.0)
    return ops.cast(x, dtype="uint8") if is_image else x


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Any:
    """PyTorch's older name of `interpolate`."""
    warn_user("nn.functional.upsample is PyTorch's older name: use interpolate", ModelWarning)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with mode "nearest"; PyTorch's older function."""
    warn_user("nn.functional.upsample_nearest is PyTorch's older function: use interpolate", ModelWarning)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with mode "bilinear" and align_corners; PyTorch's older function."""
    warn_user("nn.functional.upsample_bilinear is PyTorch's older function: use interpolate", ModelWarning)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
