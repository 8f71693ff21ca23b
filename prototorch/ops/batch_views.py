"""Ops between a whole batch and one slice of it. Only a plan's pass says them (see
`prototorch.graph.passes.batch_tiling`):
the steps between them run once for each slice, and both are the same memory seen through another shape.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.shape import concat, slice_
from prototorch.spec import Spec


class SliceView(Op):
    """``part(x, count=)``: ``count`` rows of x, from the first on; in a loop those of the slice that runs."""

    is_view = True

    def infer_spec(self, x: Spec, count: int) -> Spec:
        if x.ndim == 0 or not 0 < count <= x.shape[0]:
            raise self.shape_error(f"{count} rows of {list(x.shape)}")
        return Spec((count, *x.shape[1:]), x.dtype, x.layout)

    def decompose(self, x: Any, count: int) -> Any:
        shape = x.spec.shape
        return slice_(x, start=(0,) * len(shape), stop=(count, *shape[1:]), step=(1,) * len(shape))


class ConcatView(Op):
    """``joined(x, times=)``: so many slices one behind the other; in a loop each from its own turn, else alike."""

    is_view = True

    def infer_spec(self, x: Spec, times: int) -> Spec:
        if x.ndim == 0 or times < 1:
            raise self.shape_error(f"{times} slices of {list(x.shape)}")
        return Spec((x.shape[0] * times, *x.shape[1:]), x.dtype, x.layout)

    def decompose(self, x: Any, times: int) -> Any:
        return concat(*(x,) * times, axis=0)


slice_view, concat_view = SliceView(), ConcatView()
