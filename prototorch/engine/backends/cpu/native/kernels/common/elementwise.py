"""Elementwise kernels: one loop nest over memory for a single op or for a group of ops fused by the plan.

The code of an op is its own reference implementation, traced (see `array_tracer.py`). All full-size operands have the
same memory layout, so that the loops run over memory in order; the other operands are broadcast along some axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

from prototorch.engine.backends.capabilities import register_channels_last, register_fusion_role
from prototorch.engine.backends.cpu.native.array_tracer import trace_reference
from prototorch.engine.backends.cpu.native.ir_builder import SIZES, Int64, KernelBuilder, Num, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import (
    CHANNELS_LAST,
    TaskList,
    clear_caches,
    kernel_code,
    native_kernel,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.nontemporal import choose_nontemporal
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.engine.backends.registry import register_resolver
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS

__all__ = ["loop_nest", "memory_order", "op_tasks", "trace_op", "trace_program"]

_TYPES = ("float32", "int32", "uint8", "bool", "int64", "float64", "uint32")
#: elements up to which all is one piece, and the elements of a piece above it
SERIAL_ELEMENTS, PIECE_ELEMENTS = 1 << 14, 1 << 15

Formula = Callable[[KernelBuilder, list[Num]], tuple[Num, ...]]


@dataclass(frozen=True)
class LoopNest:
    """The loops over memory: ``axes`` are the merged axes of the result, outermost first; ``strides`` holds for each
    input its stride, in elements, along each of them (0: broadcast)."""

    axes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # one per input
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]


def memory_order(shape: tuple[int, ...], layout: str | None) -> tuple[int, ...]:
    """Return the axes of a shape (or one value for each axis) in the order of memory."""
    return (shape[0], *shape[2:], shape[1]) if layout == CHANNELS_LAST else shape


def loop_nest(ins: Specs, outs: Specs) -> LoopNest:
    """Return the loop nest of an op. Raises UnsupportedError if the operands have different memory layouts."""
    shape, layout = outs[0].shape, outs[0].layout
    for o in outs:
        if (o.shape, o.layout) != (shape, layout):
            raise UnsupportedError("outputs of different memory layouts")
    for s in (*ins, *outs):
        if s.dtype not in _TYPES:
            raise UnsupportedError(s.dtype)
    axes = memory_order(shape, layout)
    strides = []
    for s in ins:
        padded_shape = (1,) * (len(shape) - s.ndim) + s.shape
        operand_layout = s.layout if s.ndim == len(shape) else None
        if s.layout is not None and operand_layout is None:
            raise UnsupportedError("an operand of fewer dimensions with a layout")
        single = sum(n > 1 for n in padded_shape) <= 1
        if operand_layout != layout and not single:
            raise UnsupportedError("operands of different memory layouts")
        memory_shape = memory_order(padded_shape, layout)
        row, step = [], 1
        for n in reversed(memory_shape):
            row.append(0 if n == 1 else step)
            step *= n
        strides.append(tuple(reversed(row)))
    return _merge_axes(axes, strides, ins, outs)


def _merge_axes(axes: tuple[int, ...], strides: list[tuple[int, ...]], ins: Specs, outs: Specs) -> LoopNest:
    """Merge neighbouring axes along which every operand is contiguous."""
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
        raise UnsupportedError("an operand whose last axis is not contiguous")
    return LoopNest(tuple(sizes), tuple(map(tuple, moves)), tuple(s.dtype for s in ins), tuple(o.dtype for o in outs))


def trace_op(op: str, attrs: tuple[tuple[str, Any], ...]) -> Formula:
    """Return a function that emits one op for scalars or vectors."""
    return lambda k, inputs: trace_reference(k, cast(Op, OPS[op]).reference, inputs, dict(attrs))


def trace_program(program: Any, outputs: Any) -> Formula:
    """Return a function that emits a group of ops (see `prototorch.ops.fused`)."""

    def work(k: KernelBuilder, inputs: list[Num]) -> tuple[Num, ...]:
        values: list[tuple[Num, ...]] = []

        def at(ref: Any) -> Num:
            if ref[0] == "const":
                return k.num(ref[1], ref[2])
            return inputs[ref[1]] if ref[0] == "in" else values[ref[1]][ref[2]]

        for op, refs, attrs in program:
            values.append(trace_op(op, attrs)(k, list(map(at, refs))))
        return tuple(map(at, outputs))

    return work


def emit_loops(k: KernelBuilder, nest: LoopNest, work: Formula, nontemporal: bool = False) -> None:
    """Emit a loop nest. Work items are elements if there is one axis, else rows (the last axis). ``nontemporal``:
    results are stored past the caches."""
    inputs = [k.pointer(i, d) for i, d in enumerate(nest.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d, nontemporal) for i, d in enumerate(nest.output_dtypes)]
    widest = max(SIZES[d] for d in (*nest.input_dtypes, *nest.output_dtypes))
    lanes = max(k.lanes * 4 // max(widest, 4), 1)

    def span(at: list[Any], out: Index, start: Index, count: Index) -> None:
        """``count`` elements of the last axis from ``start``; ``at`` and ``out`` are the offsets of the operands."""
        broadcast_values = [
            p.load(a).splat(1) if m[-1] == 0 else None for p, a, m in zip(inputs, at, nest.strides, strict=True)
        ]

        def body(i: Int64, mask: Mask) -> None:
            position = i + start
            values = [
                f if f is not None else p.load(position + a, lanes, mask)
                for f, p, a in zip(broadcast_values, inputs, at, strict=True)
            ]
            results = work(k, values)
            for p, value in zip(outputs, results, strict=True):
                p.store(k.num(value).cast(p.dtype).splat(lanes), position + out, mask)

        k.for_each_vector(count, body, lanes)

    if len(nest.axes) == 1:
        span([0] * len(inputs), 0, k.first, k.last - k.first)
        return
    with k.range(k.first, k.last) as row:
        at, rest = [0 * row for _ in inputs], row
        for axis in range(len(nest.axes) - 2, -1, -1):
            n = nest.axes[axis]
            index = rest % n if axis else rest
            rest = rest // n
            at = [a + index * m[axis] if m[axis] else a for a, m in zip(at, nest.strides, strict=True)]
        span(at, row * nest.axes[-1], 0, nest.axes[-1])


def _emit_op(k: KernelBuilder, nest: LoopNest, op: str, attrs: tuple[tuple[str, Any], ...], nontemporal: bool) -> None:
    emit_loops(k, nest, trace_op(op, attrs), nontemporal)


def _emit_group(k: KernelBuilder, nest: LoopNest, program: Any, outputs: Any, nontemporal: bool) -> None:
    emit_loops(k, nest, trace_program(program, outputs), nontemporal)


def loop_tasks(nest: LoopNest, outs: Specs, body: Callable[..., None], *params: Any) -> TaskList:
    """Return the tasks that run a loop nest. Raises UnsupportedError at once if the code could not be emitted later."""
    shape_free = replace(nest, axes=(1, *nest.axes[1:]))  # the outermost trip count is a run-time argument
    cached_code = kernel_code(body, shape_free, *params, False)
    cached_code.check_supported()
    run = PIECE_ELEMENTS if len(nest.axes) == 1 else nest.axes[-1]
    address = choose_nontemporal(
        lambda nontemporal: kernel_code(body, shape_free, *params, True) if nontemporal else cached_code, outs, run
    )
    total = prod(nest.axes)
    items = total if len(nest.axes) == 1 else total // nest.axes[-1]
    each = total // items
    grain = items if total <= SERIAL_ELEMENTS else max(PIECE_ELEMENTS // each, 1)
    return TaskList(lambda i, o: [ParallelTask(address(i, o), (*i, *o), items, grain)])


def op_tasks(nest: LoopNest, name: str, outs: Specs) -> TaskList:
    """Return the tasks of one op over a loop nest."""
    return loop_tasks(nest, outs, _emit_op, name, ())


_registered: dict[str, Any] = {}  # op name -> the op for which code is generated


def _register(name: str) -> None:
    """Generate the kernel of an elementwise op from its reference implementation."""
    op, previous = OPS.get(name), _registered.get(name)
    if not getattr(op, "elementwise", False) or op is previous:
        return
    _registered[name] = op
    if previous is not None:  # prepared kernels compute the op that had this name
        clear_caches()
        return

    @native_kernel(name)
    def elementwise(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
        nest = loop_nest(ins, outs)
        return loop_tasks(nest, outs, _emit_op, name, tuple(sorted(attrs.items())))

    register_channels_last("native", "follows", name)
    register_fusion_role("native", "elementwise", name)


for _name in list(OPS):  # now, before the kernels that are written by hand declare what differs for their ops
    _register(_name)
register_resolver("native", _register)
register_channels_last("native", "follows", "fused")


@native_kernel("fused")
def fused_elementwise(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """A group of elementwise ops."""
    program = attrs["program"]
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in program):
        return None
    nest = loop_nest(ins, outs)
    return loop_tasks(nest, outs, _emit_group, program, attrs["outputs"])
