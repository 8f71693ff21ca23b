"""Ops that change the memory layout of a value, never its elements. Only the layout pass inserts them.

A layout says how memory lies, not which axis means what: the shape of a value stays [N, C, *spatial]. (The field
``data_format`` of layers says which axis means what; they record transposes.) In the layout ``"channels_last"`` an
array of logical shape [N, C, *spatial] is stored as [N, *spatial, C]; None is row-major order. The spec inference of
all other ops ignores layouts: the pass writes them into the specs.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import no_flops, only_first_batched
from prototorch.ops.shape import Transpose
from prototorch.spec import Spec

CHANNELS_LAST = "channels_last"


def channels_to_last(ndim: int) -> tuple[int, ...]:
    """The order of `transpose` that moves axis 1 of [N, C, *spatial] behind all others."""
    return (0, *range(2, ndim), 1)


def channels_to_first(ndim: int) -> tuple[int, ...]:
    """The order of `transpose` that moves the last axis of [N, *spatial, C] behind the first."""
    return (0, ndim - 1, *range(1, ndim - 1))


def layouts_coincide(shape: tuple[int, ...]) -> bool:
    """Whether both layouts are the same memory: one channel, or one spatial position."""
    return len(shape) < 3 or shape[1] == 1 or all(n == 1 for n in shape[2:])


class Reorder(Op):
    """``reorder(x, layout=)``: the same elements in another memory layout."""

    derivatives = (lambda g, y, x, layout: reorder(g, layout=x.spec.layout),)
    flops = no_flops
    preserves_batch = only_first_batched

    def infer_spec(self, x: Spec, layout: str | None) -> Spec:
        if layout not in (None, CHANNELS_LAST):
            raise self.shape_error(f"there is no layout {layout!r}")
        if layout is not None and x.ndim < 3:
            raise self.shape_error(f"expected batch, channel and spatial axes, got {list(x.shape)}")
        return Spec(x.shape, x.dtype, layout)

    def reference(self, xp: Any, x: Any, layout: str | None) -> Any:
        return x


class Relabel(Reorder):
    """As `reorder`, where both layouts are the same memory (see `layouts_coincide`): nothing is moved."""

    is_view = True

    def infer_spec(self, x: Spec, layout: str | None) -> Spec:
        if not layouts_coincide(x.shape):
            raise self.shape_error(f"the two layouts of {list(x.shape)} are not the same memory")
        return super().infer_spec(x, layout)


class TransposeView(Transpose):
    """As `transpose`, where both orders of axes are the same memory: [N, C, *spatial] in the layout channels_last is
    [N, *spatial, C] in the plain one. Nothing is moved."""

    is_view = True


reorder, relabel, transpose_view = Reorder(), Relabel(), TransposeView()
