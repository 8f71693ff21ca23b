"""Zero padding and cropping along the dimensions after the channels."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.windows import Pads, check_rank
from prototorch.schema import Padding, example, field


def _padding_field(rank: int) -> Any:
    doc = "Zeros: one integer, one per dimension, or [before, after] pairs."
    return field(default=1, type=Padding(rank, ()), doc=doc)


def _cropping_field(rank: int) -> Any:
    doc = "Cropped positions: one integer, one per dimension, or [before, after] pairs."
    return field(default=0 if rank == 2 else 1, type=Padding(rank, ()), doc=doc)


class _ZeroPadding(MapLayer):
    keeps_bounds = True
    rank: ClassVar[int]
    padding: Pads

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, self.rank)
        return ops.pad(x, pads=((0, 0), (0, 0), *self.padding))


class ZeroPadding1D(_ZeroPadding):
    """Zeros before and after (Keras). Input [batch, steps, channels]."""

    rank = 1
    padding: Pads = _padding_field(1)
    examples = [
        example("ZeroPadding1D { }", inputs=[(3, 2)]),
        example("ZeroPadding1D { padding: [0, 2] }", inputs=[(1, 1)]),
    ]


class ZeroPadding2D(_ZeroPadding):
    """Zeros around images (Keras, channels first). Input [batch, channels, rows, columns]."""

    rank = 2
    padding: Pads = _padding_field(2)
    examples = [
        example("ZeroPadding2D { }", inputs=[(2, 3, 2)]),
        example("ZeroPadding2D { padding: [[0, 2], [1, 0]] }", inputs=[(1, 2, 3)]),
        example("ZeroPadding2D { padding: [0, 2] }", inputs=[(1, 2, 3)]),
    ]


class ZeroPadding3D(_ZeroPadding):
    """Zeros around volumes (Keras, channels first). Input [batch, channels, depth, rows, columns]."""

    rank = 3
    padding: Pads = _padding_field(3)
    examples = [
        example("ZeroPadding3D { }", inputs=[(1, 2, 1, 2)]),
        example("ZeroPadding3D { padding: [[0, 2], [1, 0], [0, 0]] }", inputs=[(2, 1, 2, 2)]),
    ]


class _Cropping(MapLayer):
    keeps_bounds = True
    rank: ClassVar[int]
    cropping: Pads

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, self.rank)
        if any(sum(sides) >= n for sides, n in zip(self.cropping, x.shape[2:], strict=True)):
            ctx.fail(f"cropping {[list(c) for c in self.cropping]} leaves nothing of {list(x.shape[2:])}")
        if not any(n for pair in self.cropping for n in pair):
            return ops.reshape(x, shape=tuple(x.shape))  # a value of its own, without the input's mask
        inner = (slice(a, n - b) for (a, b), n in zip(self.cropping, x.shape[2:], strict=True))
        return x[(slice(None), slice(None), *inner)]


class Cropping1D(_Cropping):
    """Steps cut off at both ends (Keras). Input [batch, steps, channels]."""

    rank = 1
    cropping: Pads = _cropping_field(1)
    examples = [
        example("Cropping1D { }", inputs=[(5, 2)]),
        example("Cropping1D { cropping: [0, 2] }", inputs=[(3, 1)]),
    ]


class Cropping2D(_Cropping):
    """Images without their borders (Keras, channels first). Input [batch, channels, rows, columns]."""

    rank = 2
    cropping: Pads = _cropping_field(2)
    examples = [
        example("Cropping2D { cropping: 1 }", inputs=[(2, 3, 4)]),
        example("Cropping2D { cropping: [[0, 1], [2, 0]] }", inputs=[(1, 2, 3)]),
    ]


class Cropping3D(_Cropping):
    """Volumes without their borders (Keras, channels first). Input [batch, channels, depth, rows, columns]."""

    rank = 3
    cropping: Pads = _cropping_field(3)
    examples = [
        example("Cropping3D { }", inputs=[(1, 3, 4, 3)]),
        example("Cropping3D { cropping: [[0, 1], [1, 0], [0, 0]] }", inputs=[(2, 2, 2, 2)]),
    ]
