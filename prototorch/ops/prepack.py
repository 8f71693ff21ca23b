"""Ops with an operand whose order in memory is the kernel's own: weights that are brought into that order once.

Only a plan's pass says them, for a backend that has told how a kernel wants an operand to lie (`Backend.pack_request`).
Without such a kernel the arranged operand is its numbers one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple, cast

from prototorch.ops.core import Op
from prototorch.ops.facts import no_flops
from prototorch.ops.operators import OPS
from prototorch.ops.shape import reshape, slice_
from prototorch.spec import Spec


class OperandUse(NamedTuple):
    """What an operand is used for: input number ``operand`` of an op on such inputs, by a kernel of this ``level``
    where that is said."""

    op: str
    attrs: tuple[tuple[str, Any], ...]
    ins: tuple[Spec, ...]
    outs: tuple[Spec, ...]
    operand: int
    level: str = ""


class Prepack(Op):
    """``arrange(w, use=, size=)``: the operand of a use in the order in which the kernel for that use reads it, in
    ``size`` numbers. Uses of equal ``form`` want the same numbers in the same order; None: this use alone."""

    flops = no_flops

    def infer_spec(self, w: Spec, use: OperandUse, size: int, form: Any = None) -> Spec:
        if size < w.size:
            raise self.shape_error(f"{w.size} numbers do not fit into {size}")
        return Spec((size,), w.dtype)

    def reference(self, xp: Any, w: Any, use: OperandUse, size: int, form: Any = None) -> Any:
        flat = xp.reshape(w, (-1,))
        return xp.concat((flat, xp.zeros((size - flat.shape[0],), dtype=w.dtype)))


class ApplyPrepacked(Op):
    """``arranged(*inputs, use=)``: the op of a use, whose operand is an arranged one."""

    def inplace_map(self, attrs: Mapping[str, Any]) -> Mapping[int, int]:
        use = attrs["use"]
        return cast(Op, OPS[use.op]).inplace_map(dict(use.attrs))

    def decompose(self, *inputs: Any, use: OperandUse) -> Any:
        shape = use.ins[use.operand].shape
        held = list(inputs)
        held[use.operand] = reshape(slice_(held[use.operand], start=(0,), stop=(prod(shape),), step=(1,)), shape=shape)
        return OPS[use.op](*held, **dict(use.attrs))


prepack, apply_prepacked = Prepack(), ApplyPrepacked()
