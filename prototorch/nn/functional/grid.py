"""Samples of images at the points of a grid (spatial transformers, Jaderberg et al., 2015)."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from prototorch import ops
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input

__all__ = ["affine_grid", "grid_sample"]


def _axis_points(like: Any, size: int, align_corners: bool) -> Any:
    """Positions -1 .. 1 of the elements of an axis, of the type and on the device of another value."""
    i = ops.cast(ops.iota.apply_like(like, size=size), dtype=str(like.dtype))
    if align_corners:
        return i * (2 / (size - 1)) - 1 if size > 1 else i * 0.0
    return (i * 2 + 1) * (1 / size) - 1


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The grid [batch, *spatial, rank] for `grid_sample` of affine maps [batch, rank, rank + 1] and a size [batch,
    channels, *spatial], of two or three spatial dimensions. Positions lie in -1 .. 1, the last dimension first."""
    check_input(theta, "affine_grid")
    sizes = tuple(int(n) for n in size)
    rank = len(sizes) - 2
    if rank not in (2, 3) or tuple(theta.shape) != (sizes[0], rank, rank + 1) or min(sizes) < 1:
        raise ShapeError(
            f"affine_grid: maps {list(theta.shape)} do not fit a size {list(sizes)}: expected "
            "[batch, 2, 3] for 4 numbers, [batch, 3, 4] for 5"
        )
    spatial, dtype = sizes[2:], str(theta.dtype)
    columns = []
    for axis in reversed(range(rank)):
        points = ops.reshape(
            _axis_points(theta, spatial[axis], bool(align_corners)),
            shape=tuple(spatial[axis] if k == axis else 1 for k in range(rank)),
        )
        columns.append(ops.reshape(ops.broadcast_to(points, shape=spatial), shape=(prod(spatial), 1)))
    columns.append(ops.full.apply_like(theta, shape=(prod(spatial), 1), value=1.0, dtype=dtype))
    base = ops.concat(*columns, axis=1)
    grid = ops.matmul(
        ops.broadcast_to(ops.expand_dims(base, axis=0), shape=(sizes[0], *base.shape)), theta, transpose_b=True
    )
    return ops.reshape(grid, shape=(sizes[0], *spatial, rank))


def _reflect(at: Any, low: float, high: float) -> Any:
    """Positions reflected at two borders until they lie between them."""
    span = high - low
    if span <= 0:
        return at * 0.0
    away = ops.abs(at - low)
    flips = ops.stop_gradient(ops.floor(away * (1 / span)))
    rest = away - flips * span
    is_even = ops.equal(ops.remainder(flips, 2.0), 0.0)
    return ops.where(is_even, rest + low, high - rest)


def _limit(at: Any, size: int) -> Any:
    """Positions brought into 0 .. size - 1, without a gradient outside."""
    inside = ops.logical_and(ops.greater(at, 0), ops.less(at, size - 1))
    return ops.where(inside, at, ops.stop_gradient(ops.clip(at, 0.0, float(size - 1))))


def _pad_positions(at: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    if padding_mode == "border":
        return _limit(at, size)
    if padding_mode == "reflection":
        at = _reflect(at, 0.0, size - 1.0) if align_corners else _reflect(at, -0.5, size - 0.5)
        return _limit(at, size)
    return at


class _Image:
    """The elements of x [N, C, *spatial] at integer positions [N, P] for each axis; 0 outside."""

    def __init__(self, x: Any):
        self.size = tuple(x.shape[2:])
        self.flat = ops.reshape(x, shape=(*x.shape[:2], prod(self.size)))

    def at(self, positions: list[Any]) -> Any:
        """[N, C, P]; positions are floating-point values of integers."""
        index: Any = None
        is_inside: Any = None
        for axis, (n, p) in enumerate(zip(self.size, positions, strict=True)):
            here = ops.logical_and(ops.greater_equal(p, 0), ops.less_equal(p, n - 1))
            is_inside = here if is_inside is None else ops.logical_and(is_inside, here)
            step = ops.cast(ops.where(here, p, 0.0), dtype="int64") * prod(self.size[axis + 1 :])
            index = step if index is None else index + step
        count = index.shape[1]
        wide = ops.broadcast_to(ops.expand_dims(index, axis=1), shape=(*self.flat.shape[:2], count))
        values = ops.take_along_axis(self.flat, wide)
        return ops.where(ops.expand_dims(is_inside, axis=1), values, 0.0)


def _cubic_weights(t: Any) -> list[Any]:
    """The weights of the four elements around a fraction t (Keys, a = -0.75)."""
    a = -0.75
    near = lambda d: ((d * (a + 2) - (a + 3)) * d * d) + 1  # noqa: E731
    far = lambda d: ((d * a - 5 * a) * d + 8 * a) * d - 4 * a  # noqa: E731
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@tensor_function(method=False)
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Elements of [batch, channels, *spatial] (two or three dimensions) at the points of a grid [batch, *out, rank],
    with positions in -1 .. 1, the last dimension first: [batch, channels, *out].

    mode: "bilinear", "nearest", "bicubic" (two dimensions). padding_mode: what lies outside, "zeros", "border" or
    "reflection". align_corners: whether -1 and 1 are the centres of the corner elements, or their outer borders.
    """
    check_input(input, "grid_sample")
    check_input(grid, "grid_sample")
    rank = input.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise UsageError(f"grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r:.60}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise UsageError(
            f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r:.60}"
        )
    if rank not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != rank:
        raise ShapeError(
            f"grid_sample: the grid {list(grid.shape)} does not fit an input {list(input.shape)}: "
            "expected [batch, *out, rank] of an input of 4 or 5 dimensions"
        )
    if mode == "bicubic" and rank != 2:
        raise ShapeError(f"grid_sample: mode 'bicubic' needs an input of 4 dimensions, got {list(input.shape)}")
    aligned, out = bool(align_corners), tuple(grid.shape[1:-1])
    points = ops.reshape(grid, shape=(grid.shape[0], prod(out), rank))
    image = _Image(input)
    positions = []
    for axis, n in enumerate(image.size):
        k = rank - 1 - axis
        at = ops.squeeze(ops.slice(points, start=(0, 0, k), stop=(*points.shape[:2], k + 1), step=(1, 1, 1)), axis=2)
        at = (at + 1) * ((n - 1) / 2) if aligned else (at + 1) * (n / 2) - 0.5
        positions.append(at if mode == "bicubic" else _pad_positions(at, n, padding_mode, aligned))
    if mode == "nearest":
        y = image.at([ops.stop_gradient(ops.round(p)) for p in positions])
    else:
        lows = [ops.stop_gradient(ops.floor(p)) for p in positions]
        fractions = [p - low for p, low in zip(positions, lows, strict=True)]
        if mode == "bilinear":
            weights = [[1 - f, f] for f in fractions]
        else:
            weights = [_cubic_weights(f) for f in fractions]
        steps: tuple[int, ...] = (0, 1) if mode == "bilinear" else (-1, 0, 1, 2)
        y = None
        for choice in product(range(len(steps)), repeat=rank):
            corners = [low + steps[c] for low, c in zip(lows, choice, strict=True)]
            if mode == "bicubic":
                corners = [
                    ops.round(_pad_positions(p, n, padding_mode, aligned))
                    for p, n in zip(corners, image.size, strict=True)
                ]
            weight: Any = None
            for w, c in zip(weights, choice, strict=True):
                weight = w[c] if weight is None else weight * w[c]
            part = image.at(corners) * ops.expand_dims(weight, axis=1)
            y = part if y is None else y + part
    return ops.reshape(y, shape=(*input.shape[:2], *out))
