"""A group of ops as one op: the result of the fusion pass, so that a kernel can run the group in one pass over memory.

A *program* is a tuple of instructions ``(op name, refs, attrs items)``. A ref names an operand: ``("in", i)`` is an
input, ``("node", j, k)`` output k of instruction j, ``("const", value, dtype)`` a constant. It is hashable, like every
attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import full
from prototorch.ops.operators import OPS

OperandRef = tuple[Any, ...]
FusedInstruction = tuple[str, tuple[OperandRef, ...], tuple[tuple[str, Any], ...]]
FusedProgram = tuple[FusedInstruction, ...]


class Fused(Op):
    """The group ``program``; ``outputs`` are the refs of the group's results, ``inplace`` pairs (output, input): that
    output may be written over that input, which is read element by element.
    """

    def inplace_map(self, attrs: Mapping[str, Any]) -> Mapping[int, int]:
        return dict(attrs.get("inplace", ()))

    def decompose(self, *inputs: Any, program: FusedProgram, outputs: tuple[OperandRef, ...], inplace: Any = ()) -> Any:
        results: list[tuple[Any, ...]] = []

        def at(ref: OperandRef) -> Any:
            if ref[0] == "const":
                return full(shape=(), value=ref[1], dtype=ref[2])
            return inputs[ref[1]] if ref[0] == "in" else results[ref[1]][ref[2]]

        for name, refs, attrs in program:
            result = OPS[name](*map(at, refs), **dict(attrs))
            results.append(result if isinstance(result, tuple) else (result,))
        return tuple(map(at, outputs)) if len(outputs) > 1 else at(outputs[0])


fused = Fused()
