"""Views between a whole batch and one slice of it, inserted by the pass `prototorch.graph.passes.batch_tiling`.

The steps between the two views run once for each slice. Both are the same memory in another shape.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.shape import concat, slice_
from prototorch.spec import Spec


class SliceView(Op):
    """``slice_view(x, count=)``: ``count`` rows of x, from the first; in a loop those of the current slice."""

    is_view = True

    def infer_spec(self, x: Spec, count: int) -> Spec:
        if x.ndim == 0 or not 0 < count <= x.shape[0]:
            raise self.shape_error(f"cannot take {count} rows of shape {list(x.shape)}")
        return Spec((count, *x.shape[1:]), x.dtype, x.layout)

    def decompose(self, x: Any, count: int) -> Any:
        shape = x.spec.shape
        return slice_(x, start=(0,) * len(shape), stop=(count, *shape[1:]), step=(1,) * len(shape))


class ConcatView(Op):
    """``concat_view(x, times=)``: ``times`` slices one after another. In a loop each slice is of its own iteration,
    else they are equal."""

    is_view = True

    def infer_spec(self, x: Spec, times: int) -> Spec:
        if x.ndim == 0 or times < 1:
            raise self.shape_error(f"cannot concatenate {times} slices of shape {list(x.shape)}")
        return Spec((x.shape[0] * times, *x.shape[1:]), x.dtype, x.layout)

    def decompose(self, x: Any, times: int) -> Any:
        return concat(*(x,) * times, axis=0)


slice_view, concat_view = SliceView(), ConcatView()
