"""Fused groups that begin with an anchor: what a library fuses itself is matched; the rest becomes an elementwise
kernel over the anchor's result, which is written to the memory of an output of the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.cuda.kernels.elementwise import elementwise_launches
from prototorch.cuda.kernels.elementwise_batch_norm_grad import elementwise_batch_norm_grad
from prototorch.cuda.kernels.elementwise_channel_sum import elementwise_channel_sum
from prototorch.cuda.kernels.launch import InputArg, LaunchSequence, OutputArg
from prototorch.ops.fused import FusedProgram, OperandRef
from prototorch.spec import Spec

__all__ = ["BiasReluEpilogue", "build_epilogue", "match_bias_relu"]


@dataclass(frozen=True)
class BiasReluEpilogue:
    """relu(y + add + bias): the indices of the group's inputs that are added, and whether ReLU follows."""

    add: int | None
    bias: int | None
    relu: bool


def match_bias_relu(
    program: FusedProgram, results: Sequence[OperandRef], ins: Sequence[Spec], y: Spec, axis: int = 1
) -> BiasReluEpilogue | None:
    """What follows the anchor, where it is no more than an `BiasReluEpilogue`; y is the anchor's result, ``axis``
    that of the
    bias."""
    if tuple(results) != (("node", len(program) - 1, 0),):
        return None
    add = bias = None
    relu = False
    for j, (name, refs, _) in enumerate(program[1:], 1):
        before = ("node", j - 1, 0)
        if relu or before not in refs:
            return None
        if name == "relu":
            relu = True
            continue
        other = next((r for r in refs if r != before), None)
        if name != "add" or other is None or other[0] != "in":
            return None
        spec = ins[other[1]]
        wide = (1,) * (y.ndim - spec.ndim) + spec.shape
        if spec.dtype != y.dtype:
            return None
        if spec.shape == y.shape and spec.layout == y.layout and add is None:
            add = other[1]
        elif wide == tuple(n if i == axis else 1 for i, n in enumerate(y.shape)) and bias is None:
            bias = other[1]
        else:
            return None
    return BiasReluEpilogue(add, bias, relu)


@dataclass(frozen=True)
class GroupEpilogue:
    """The kernel after an anchor: ``result`` is the spec of the anchor's result, ``output_index`` the output of the
    group to which it is written."""

    result: Spec
    output_index: int
    launches: LaunchSequence | None

    def attach_to(
        self, anchor: Callable[[Sequence[Any], Sequence[Any]], None], operands: Sequence[int]
    ) -> AnchorWithEpilogue:
        """The anchor with this epilogue; ``operands`` are the indices of the group's inputs that the anchor reads."""
        return AnchorWithEpilogue(self, anchor, tuple(operands))


class AnchorWithEpilogue:
    """An anchor, then its epilogue."""

    def __init__(self, remaining: GroupEpilogue, anchor: Any, operands: tuple[int, ...]):
        self.rest, self.anchor, self.operands = remaining, anchor, operands
        self.family = getattr(anchor, "family", "anchor")

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """inputs: those of the whole group; the anchor takes its own of them. outputs: those of the group."""
        self.anchor([inputs[i] for i in self.operands], [outputs[self.rest.output_index]])
        if self.rest.launches is not None:
            self.rest.launches(inputs, outputs)


def build_epilogue(
    attrs: dict[str, Any], ins: tuple[Spec, ...], outs: tuple[Spec, ...], result: Spec
) -> GroupEpilogue | None:
    """The epilogue of a group whose anchor computes ``result``; None where no output has room for that result, or
    where no kernel takes the other ops.

    An output that shares memory with an input is never used for the result: the epilogue still reads that input.
    """
    program, results = attrs["program"], attrs["outputs"]
    first = ("node", 0, 0)
    inplace_outputs = {out for out, _ in attrs.get("inplace", ())}
    if first in results:
        output_index = results.index(first)
    else:
        candidates = (k for k, o in enumerate(outs) if k not in inplace_outputs and o == result)
        output = next(candidates, None)
        if output is None:
            return None
        output_index = output
    # the inputs of the epilogue: the anchor's result, then the group's inputs that it reads itself
    read = sorted({r[1] for _, refs, _ in program[1:] for r in refs if r[0] == "in"})
    operand_index = {i: k for k, i in enumerate(read, 1)}

    def renumber(ref: OperandRef) -> OperandRef:
        if ref == first:
            return ("in", 0)
        if ref[0] == "in":
            return ("in", operand_index[ref[1]])
        return ("node", ref[1] - 1, *ref[2:]) if ref[0] == "node" else ref

    remaining = tuple((name, tuple(map(renumber, refs)), operands) for name, refs, operands in program[1:])
    other_outputs = [k for k, r in enumerate(results) if r != first]
    operands = (outs[output_index], *(ins[i] for i in read)), tuple(outs[k] for k in other_outputs)
    ends = tuple(renumber(results[k]) for k in other_outputs)
    group = {"program": remaining, "outputs": ends}
    sequence = (
        elementwise_launches(remaining, ends, *operands)
        or elementwise_channel_sum(*operands, group)
        or elementwise_batch_norm_grad(*operands, group)
    )
    if sequence is None:
        return None
    rebound: dict[Any, Any] = {
        InputArg(0): OutputArg(output_index),
        **{InputArg(k): InputArg(i) for i, k in operand_index.items()},
    }
    rebound.update({OutputArg(i): OutputArg(k) for i, k in enumerate(other_outputs)})

    def rebind(a: Any) -> Any:
        return rebound.get(a, a) if isinstance(a, InputArg | OutputArg) else a

    launches = (replace(launch, args=tuple(map(rebind, launch.args))) for launch in sequence.launches)
    epilogue_launches = LaunchSequence(*launches, workspace_bytes=sequence.workspace_bytes)
    epilogue_launches.layouts = tuple(s.layout for s in ins)
    return GroupEpilogue(result, output_index, epilogue_launches)
