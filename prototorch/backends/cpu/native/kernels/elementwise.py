"""Elementwise ops: one sweep over memory for an op, or for a whole group of ops that a plan has fused.

The formula is the op's own plain body, traced (see `arrays.py`). All full-size operands lie alike, so that the sweep is
over their memory in order; other operands are broadcast along some axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

from prototorch.backends.core import channels_last, fusable
from prototorch.backends.cpu.native.arrays import traced
from prototorch.backends.cpu.native.call import CHANNELS_LAST, Tasks, code, native
from prototorch.backends.cpu.native.emit import SIZES, Int, Kernel, Num, Unsupported
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

_TYPES = ("float32", "int32", "uint8", "bool", "int64", "float64", "uint32")
#: elements below which a sweep is one piece, and the elements of a piece above it
SERIAL, PIECE = 1 << 14, 1 << 15

Formula = Callable[[Kernel, list[Num]], tuple[Num, ...]]


@dataclass(frozen=True)
class Sweep:
    """The loops over memory: merged axes of the result, outermost first, and how far each operand moves along each."""

    axes: tuple[int, ...]
    moves: tuple[tuple[int, ...], ...]  # one per input
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def memory_order(shape: tuple[int, ...], layout: str | None) -> tuple[int, ...]:
    """A shape's axes as they lie in memory."""
    return (shape[0], *shape[2:], shape[1]) if layout == CHANNELS_LAST else shape


def sweep_of(ins: tuple[Spec, ...], outs: tuple[Spec, ...]) -> Sweep:
    """The sweep of an op. Raises Unsupported where operands lie differently."""
    shape, layout = outs[0].shape, outs[0].layout
    for o in outs:
        if (o.shape, o.layout) != (shape, layout):
            raise Unsupported("outputs that lie differently")
    for s in (*ins, *outs):
        if s.dtype not in _TYPES:
            raise Unsupported(s.dtype)
    axes = memory_order(shape, layout)
    strides = []
    for s in ins:
        wide = (1,) * (len(shape) - s.ndim) + s.shape
        own = s.layout if s.ndim == len(shape) else None
        if s.layout is not None and own is None:
            raise Unsupported("an operand of fewer dimensions with a layout")
        single = sum(n > 1 for n in wide) <= 1
        if own != layout and not single:
            raise Unsupported("operands that lie differently")
        held = memory_order(wide, layout)
        row, step = [], 1
        for n in reversed(held):
            row.append(0 if n == 1 else step)
            step *= n
        strides.append(tuple(reversed(row)))
    return _merged(axes, strides, ins, outs)


def _merged(axes: tuple[int, ...], strides: list[tuple[int, ...]], ins: tuple[Spec, ...],
            outs: tuple[Spec, ...]) -> Sweep:  # fmt: skip
    """Neighbouring axes along which every operand goes on evenly become one."""
    sizes: list[int] = []
    moves: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(axes):
        if n == 1:
            continue
        if sizes and all(m[-1] == s[axis] * n for m, s in zip(moves, strides, strict=True)):
            sizes[-1] *= n
            for m, s in zip(moves, strides, strict=True):
                m[-1] = s[axis]
            continue
        sizes.append(n)
        for m, s in zip(moves, strides, strict=True):
            m.append(s[axis])
    if not sizes:
        sizes, moves = [1], [[0] for _ in strides]
    if any(m[-1] not in (0, 1) for m in moves):
        raise Unsupported("an operand whose last axis is not dense")
    return Sweep(tuple(sizes), tuple(map(tuple, moves)), tuple(s.dtype for s in ins), tuple(o.dtype for o in outs))


def formula(op: str, attrs: tuple[tuple[str, Any], ...]) -> Formula:
    """What one op does to numbers."""
    return lambda k, inputs: traced(k, cast(Op, OPS[op]).plain, inputs, dict(attrs))


def program_formula(program: Any, outputs: Any) -> Formula:
    """What a group of ops does to numbers (see `prototorch.ops.fused`)."""

    def work(k: Kernel, inputs: list[Num]) -> tuple[Num, ...]:
        made: list[tuple[Num, ...]] = []

        def at(ref: Any) -> Num:
            if ref[0] == "const":
                return k.num(ref[1], ref[2])
            return inputs[ref[1]] if ref[0] == "in" else made[ref[1]][ref[2]]

        for op, refs, attrs in program:
            made.append(formula(op, attrs)(k, list(map(at, refs))))
        return tuple(map(at, outputs))

    return work


def swept(k: Kernel, sweep: Sweep, work: Formula, past: bool = False) -> None:
    """The code of a sweep: items are elements of a sweep of one axis, else rows (the last axis). ``past``: results are
    written past the caches."""
    inputs = [k.pointer(i, d) for i, d in enumerate(sweep.inputs)]
    outputs = [k.pointer(len(inputs) + i, d, past) for i, d in enumerate(sweep.outputs)]
    wide = max(SIZES[d] for d in (*sweep.inputs, *sweep.outputs))
    lanes = max(k.lanes * 4 // max(wide, 4), 1)

    def span(at: list[Any], out: Any, start: Any, count: Any) -> None:
        """``count`` elements of the last axis from ``start``; ``at`` and ``out``: where each operand begins."""
        fixed = [p.load(a).splat(1) if m[-1] == 0 else None for p, a, m in zip(inputs, at, sweep.moves, strict=True)]

        def body(i: Int, mask: Num | None) -> None:
            here = i + start
            given = [
                f if f is not None else p.load(here + a, lanes, mask) for f, p, a in zip(fixed, inputs, at, strict=True)
            ]
            made = work(k, given)
            for p, value in zip(outputs, made, strict=True):
                p.store(k.num(value).cast(p.dtype).splat(lanes), here + out, mask)

        k.vectors(count, body, lanes)

    if len(sweep.axes) == 1:
        span([0] * len(inputs), 0, k.first, k.last - k.first)
        return
    with k.range(k.first, k.last) as row:
        at, rest = [0 * row for _ in inputs], row
        for axis in range(len(sweep.axes) - 2, -1, -1):
            n = sweep.axes[axis]
            index = rest % n if axis else rest
            rest = rest // n
            at = [a + index * m[axis] if m[axis] else a for a, m in zip(at, sweep.moves, strict=True)]
        span(at, row * sweep.axes[-1], 0, sweep.axes[-1])


def _one(k: Kernel, sweep: Sweep, op: str, attrs: tuple[tuple[str, Any], ...], past: bool) -> None:
    swept(k, sweep, formula(op, attrs), past)


def _group(k: Kernel, sweep: Sweep, program: Any, outputs: Any, past: bool) -> None:
    swept(k, sweep, program_formula(program, outputs), past)


def tasks(sweep: Sweep, outs: tuple[Spec, ...], body: Callable[..., None], *params: Any) -> Tasks:
    """The tasks of a sweep's code; raises Unsupported now where the code could not be emitted later."""
    made = replace(sweep, axes=(1, *sweep.axes[1:]))  # how often the outermost axis is gone along is said at run time
    plain = code(body, made, *params, False)
    plain.check()
    run = PIECE if len(sweep.axes) == 1 else sweep.axes[-1]
    address = streamed(lambda past: code(body, made, *params, True) if past else plain, outs, run)
    total = prod(sweep.axes)
    items = total if len(sweep.axes) == 1 else total // sweep.axes[-1]
    each = total // items
    grain = items if total <= SERIAL else max(PIECE // each, 1)
    return Tasks(lambda i, o: [Task(address(i, o), (*i, *o), items, grain)])


def swept_code(sweep: Sweep, name: str, outs: tuple[Spec, ...]) -> Tasks:
    """The tasks of one op over a sweep."""
    return tasks(sweep, outs, _one, name, ())


def _enter(name: str) -> None:
    @native(name)
    def elementwise(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
        sweep = sweep_of(ins, outs)
        return tasks(sweep, outs, _one, name, tuple(sorted(attrs.items())))


for _name, _op in list(OPS.items()):
    if getattr(_op, "elementwise", False):
        _enter(_name)
        channels_last("native", "follows", _name)
        fusable("native", "elementwise", _name)
channels_last("native", "follows", "fused")


@native("fused")
def fused(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """A group of elementwise ops."""
    program = attrs["program"]
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in program):
        return None
    sweep = sweep_of(ins, outs)
    return tasks(sweep, outs, _group, program, attrs["outputs"])
