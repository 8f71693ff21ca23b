"""Cropping each image at a position of its own."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import clip
from prototorch.ops.facts import lookup_bytes, no_flops
from prototorch.ops.indexing import iota, take_along_axis
from prototorch.ops.reduce import broadcast_to
from prototorch.ops.shape import swap_axes
from prototorch.spec import Spec


class Crop(Op):
    """``crop(x, top, left, height=, width=)``: of each sample of x [N, C, H, W] a window [C, height, width] whose first
    row and column are ``top`` and ``left``, int32[N, 1, 1, 1]. A window that would cross the border is moved
    inside.

    No gradient passes to the positions.
    """

    decompose_without_kernel = True
    flops = no_flops
    bytes_moved = lookup_bytes

    def infer_spec(self, x: Spec, top: Spec, left: Spec, height: int, width: int) -> Spec:
        if x.ndim != 4 or not (0 < height <= x.shape[2] and 0 < width <= x.shape[3]):
            raise self.shape_error(f"cannot crop {height} x {width} from images of shape {list(x.shape)}")
        for positions in (top, left):
            if positions.shape != (x.shape[0], 1, 1, 1) or positions.dtype != "int32":
                raise self.shape_error(f"expected positions int32{[x.shape[0], 1, 1, 1]}, got {positions}")
        return Spec((*x.shape[:2], height, width), x.dtype)

    def decompose(self, x: Any, top: Any, left: Any, height: int, width: int) -> Any:
        x = _along(x, left, width)
        return swap_axes(_along(swap_axes(x, 2, 3), top, height), 2, 3)


def _along(x: Any, first: Any, size: int) -> Any:
    """A window of the last axis."""
    positions = clip(first, 0, x.shape[3] - size) + iota.apply_like(x, size=size)
    return take_along_axis(x, broadcast_to(positions, shape=(*x.shape[:3], size)))


crop = Crop()
