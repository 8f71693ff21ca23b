"""Weight prepacking: an operand is reordered once into the memory order that its kernel reads.

Only the pass `prototorch.graph.passes.prepack` inserts these ops, for kernels that request it
(`Backend.pack_request`). Without such a kernel the packed operand is its elements in row-major order.
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
    """The use of an operand: input number ``operand`` of an op on inputs of these specs, by a kernel of this ``level``
    unless that is empty."""

    op: str
    attrs: tuple[tuple[str, Any], ...]
    ins: tuple[Spec, ...]
    outs: tuple[Spec, ...]
    operand: int
    level: str = ""


class Prepack(Op):
    """``prepack(w, use=, size=)``: the operand of a use in the order in which the kernel for that use reads it, in
    ``size`` elements. Uses of equal ``form`` share one packed operand; None: only this use."""

    flops = no_flops

    def infer_spec(self, w: Spec, use: OperandUse, size: int, form: Any = None) -> Spec:
        if size < w.size:
            raise self.shape_error(f"{w.size} elements do not fit into {size}")
        return Spec((size,), w.dtype)

    def reference(self, xp: Any, w: Any, use: OperandUse, size: int, form: Any = None) -> Any:
        flat = xp.reshape(w, (-1,))
        return xp.concat((flat, xp.zeros((size - flat.shape[0],), dtype=w.dtype)))


class ApplyPrepacked(Op):
    """``apply_prepacked(*inputs, use=)``: the op of a use, whose operand is a prepacked one."""

    def inplace_map(self, attrs: Mapping[str, Any]) -> Mapping[int, int]:
        use = attrs["use"]
        return cast(Op, OPS[use.op]).inplace_map(dict(use.attrs))

    def decompose(self, *inputs: Any, use: OperandUse) -> Any:
        shape = use.ins[use.operand].shape
        operands = list(inputs)
        operands[use.operand] = reshape(
            slice_(operands[use.operand], start=(0,), stop=(prod(shape),), step=(1,)), shape=shape
        )
        return OPS[use.op](*operands, **dict(use.attrs))


prepack, apply_prepacked = Prepack(), ApplyPrepacked()
