"""Fused epilogues: what is done to sums in registers before they are stored (bias, activation, residual, optimizer
update).

A `fused` group whose first op is an anchor (a convolution, a matrix product) runs as the anchor with an epilogue: the
other ops, traced from their reference implementations, are applied to each vector of the anchor's result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import trace_op
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS

__all__ = ["ANCHOR", "FULL", "VECTOR", "FusedEpilogue", "fused_epilogue", "no_epilogue"]

FULL, VECTOR, SCALAR, ANCHOR = "full", "vector", "scalar", "anchor"


@dataclass(frozen=True)
class FusedEpilogue:
    """The ops after an anchor. ``kinds`` holds for each input of the group how it is read: only by the anchor
    (ANCHOR), at the element of the result (FULL), at its channel, the last axis (VECTOR), or as one scalar (SCALAR)."""

    program: tuple[Any, ...]
    outputs: tuple[Any, ...]
    kinds: tuple[str, ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]

    def store(
        self,
        k: KernelBuilder,
        inputs: list[Pointer],
        outputs: list[Pointer],
        anchor_value: Num,
        at: Int64,
        channel: Index,
        mask: Mask,
    ) -> None:
        """Apply the epilogue to a vector of the anchor's result and store it at element ``at`` of the outputs."""
        lanes = anchor_value.lanes
        results: list[tuple[Num, ...]] = [(anchor_value,)]
        operands: dict[int, Num] = {}

        def read(ref: Any) -> Num:
            if ref[0] == "const":
                return k.num(ref[1], ref[2])
            if ref[0] == "node":
                return results[ref[1]][ref[2]]
            i = ref[1]
            if i not in operands:
                kind = self.kinds[i]
                if kind == SCALAR:
                    operands[i] = k.load_invariant(inputs[i])
                else:
                    operands[i] = inputs[i].load(at if kind == FULL else channel, lanes, mask)
            return operands[i]

        for op, refs, attrs in self.program[1:]:
            results.append(trace_op(op, attrs)(k, list(map(read, refs))))
        final_values = list(map(read, self.outputs))
        for pointer, value in zip(outputs, final_values, strict=True):
            pointer.store(value.cast(pointer.dtype).splat(lanes), at, mask)


def no_epilogue(inputs: int, dtype: str = "float32") -> FusedEpilogue:
    """Return the empty epilogue: the anchor's result is stored as it is."""
    return FusedEpilogue((("", (), ()),), (("node", 0, 0),), (ANCHOR,) * inputs, (dtype,) * inputs, (dtype,))


def fused_epilogue(ins: Specs, outs: Specs, attrs: Attrs, channel_axis: int) -> FusedEpilogue:
    """Return the epilogue of a fused group. Raises UnsupportedError if an operand is neither full-size nor a vector nor
    a scalar."""
    program = attrs["program"]
    shape, layout = outs[0].shape, outs[0].layout
    name, refs, anchor_attrs = program[0]
    result = cast(Op, OPS[name]).infer_spec(*(ins[ref[1]] for ref in refs), **dict(anchor_attrs))
    if (result[0] if isinstance(result, tuple) else result).shape != shape:
        raise UnsupportedError("a group whose result is not of its first op's shape")
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in program[1:]):
        raise UnsupportedError("an epilogue that is not elementwise")
    anchors = {ref[1] for ref in refs if ref[0] == "in"}
    axis = channel_axis % len(shape)
    kinds = []
    for i, s in enumerate(ins):
        is_operand = any(ref == ("in", i) for line in program[1:] for ref in line[1])
        if not is_operand:
            kinds.append(ANCHOR)
            continue
        padded_shape = (1,) * (len(shape) - s.ndim) + s.shape
        if s.size == 1:
            kinds.append(SCALAR)
        elif s.shape == shape and (s.layout == layout or layout is None):
            kinds.append(FULL)
        elif padded_shape[axis] == shape[axis] == s.size:
            kinds.append(VECTOR)
        else:
            raise UnsupportedError(f"an operand {s} beside a result {outs[0]}")
        if i in anchors and kinds[-1] != FULL:
            raise UnsupportedError("an anchor's operand that is broadcast in its epilogue")
    if any(o.shape != shape or o.layout != layout for o in outs):
        raise UnsupportedError("outputs of different memory layouts")
    if any(s.dtype not in ("float32", "bool", "int64", "int32", "uint8") for s in (*ins, *outs)):
        raise UnsupportedError("dtypes other than float32, bool and integers")
    return FusedEpilogue(
        program, attrs["outputs"], tuple(kinds), tuple(s.dtype for s in ins), tuple(o.dtype for o in outs)
    )
