"""What a training step must know before it changes weights: that their new values will be finite.

The kernels that make what the updates read (gradients, or the operands of a product that an update computes) find the
largest magnitude among their results while they write them, and so do the updates: nothing is read for it. While all
magnitudes are moderate, no update of an optimizer of ours can overflow, and the updates run. Where one is not, the
states are copied, updated and looked at, and restored where one is not finite (`engine/backends/guarded_updates.py`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.engine.backends.executable_plan import Buffer, ExecutablePlan, ExecutableStep
from prototorch.ops.linear import matmul
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update

_INT, _FLOAT = struct.Struct("<I"), struct.Struct("<f")

__all__ = ["MAX_STATE", "MAX_VALUE", "UpdateWatch", "find_watch", "magnitude", "magnitude_of_bits", "note_magnitude"]

#: up to these magnitudes the updates of our optimizers are finite: of gradients and rates, of the operands of products
#: of one term, and of weights and optimizers' slots
MAX_VALUE, MAX_OPERAND, MAX_STATE = 2.0**50, 2.0**25, 2.0**60


@dataclass(frozen=True)
class UpdateWatch:
    """What is watched in a plan.

    Attributes:
        values: the outputs that updates of guarded states read, by the number of the step that makes them.
        states: the outputs that are new values of guarded states, by the number of the step, but for averages
            (`ops.update.Update.averages`), which cannot grow beyond what they are made of.
        operands: the buffers of floats that updates of guarded states read and do not make themselves: values, and
            inputs of the plan.
        limit: the magnitude up to which the updates are known to be finite.
    """

    values: Mapping[int, tuple[int, ...]]
    states: Mapping[int, tuple[int, ...]]
    operands: tuple[Buffer, ...]
    limit: float


def find_watch(plan: ExecutablePlan) -> UpdateWatch | None:
    """What to watch in a plan; None where it has no guarded states."""
    names = plan.guarded_states & plan.written_states
    if not names:
        return None
    steps, first = plan.steps, plan.first_update
    values: dict[int, set[int]] = {}
    states: dict[int, set[int]] = {}
    operands: dict[Buffer, None] = {}
    pending: list[tuple[Buffer, int]] = []  # buffers of guarded states' values, before which step they are made
    for i, step in enumerate(steps):
        for j, buffer in enumerate(step.outputs):
            if buffer.memory == "state" and buffer.name in names:
                states.setdefault(i, set())
                if not _is_average(step, j):
                    states[i].add(j)
    pending += [(buffer, len(steps)) for name, buffer in plan.state_copies if name in names]
    updates = {i for i in states if i >= first}
    seen: set[int] = set()
    waiting = list(updates)
    while waiting or pending:
        while pending:
            buffer, before = pending.pop()
            if not buffer.spec.is_float or buffer.memory in ("state", "constant"):
                continue
            makers = _makers(steps, buffer, before)
            if not makers or any(i < first for i, _ in makers):
                operands[buffer] = None
            for i, j in makers:
                if i < first:
                    values.setdefault(i, set()).add(j)
                else:
                    states.setdefault(i, set()).add(j)
                    waiting.append(i)
        while waiting:
            i = waiting.pop()
            if i not in seen:
                seen.add(i)
                pending += [(buffer, i) for buffer in steps[i].inputs]
    products = [_terms(steps[i]) for i in seen]
    limit = min([MAX_VALUE, *(MAX_OPERAND / math.sqrt(max(n, 1)) for n in products if n)])
    sorted_values, sorted_states = (
        {i: tuple(sorted(js)) for i, js in sorted(outputs.items()) if js} for outputs in (values, states)
    )
    return UpdateWatch(sorted_values, sorted_states, tuple(operands), limit)


def _is_average(step: ExecutableStep, output: int) -> bool:
    """Whether an output of an update is an average of what it was and of the gradient, or its square: once it is
    moderate it stays finite while the gradient is moderate."""
    op: Any = step.op
    attrs, number = step.attrs, output
    if "program" in attrs:
        ref = attrs["outputs"][output]
        if ref[0] != "node":
            return False
        name, _, items = attrs["program"][ref[1]]
        op, attrs, number = OPS[name], dict(items), ref[2]
    return isinstance(op, Update) and number in op.bounded_outputs(attrs)


def _makers(steps: tuple[ExecutableStep, ...], buffer: Buffer, before: int) -> list[tuple[int, int]]:
    """The steps that write a buffer last before a step, with the outputs; none for an input of the plan."""
    if buffer.memory not in ("arena", "persistent"):
        return []
    begin, end = buffer.offset, buffer.offset + buffer.spec.nbytes
    makers = []
    for i in range(before - 1, -1, -1):
        for j, output in enumerate(steps[i].outputs):
            size = output.stride * (steps[i].trip_count - 1) + output.spec.nbytes
            if output.memory == buffer.memory and output.offset < end and begin < output.offset + size:
                makers.append((i, j))
                if output.offset <= begin and end <= output.offset + size:
                    return makers
    return makers


def _terms(step: ExecutableStep) -> float:
    """The number of terms of the sums of products that an update computes; 0 where it is elementwise."""
    lines = step.attrs.get("program") or ((step.op.name, [("in", i) for i in range(len(step.inputs))], ()),)
    if all(getattr(OPS[line[0]], "elementwise", False) for line in lines):
        return 0
    sizes = [step.inputs[ref[1]].spec.size for ref in lines[0][1] if ref[0] == "in"]
    if OPS[lines[0][0]] is matmul:  # [m, terms] by [terms, n]
        return sizes[0] * sizes[1] / max(step.outputs[0].spec.size, 1)
    return max(sizes, default=1)


def magnitude_of_bits(bits: int) -> float:
    """The magnitude of which a kernel has taken the bits."""
    return float(_FLOAT.unpack(_INT.pack(bits))[0])


def note_magnitude(maximum: np.ndarray, value: float) -> None:
    """Take a magnitude, or NaN, into the bits of the largest one (int64[1])."""
    bits = int(np.float32(value).view(np.uint32)) & 0x7FFFFFFF  # NaN's are above those of infinity
    if bits > maximum[0]:
        maximum[0] = bits


def magnitude(elements: Any) -> float:
    """The largest magnitude among the elements of a vector, or a number that is larger: the root of the sum of squares.
    NaN or infinity where an element is not finite."""
    if elements.size == 1:
        return abs(float(elements[0]))
    return math.sqrt(np.dot(elements, elements))
