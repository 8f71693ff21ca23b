"""Facts that ops declare about themselves, for cost models, mixed precision and batch analysis.

`Op` documents which facts there are and their defaults. This module holds the vocabulary of the facts and the
declarations that several ops share: functions that an op's class takes as methods, for example ``flops = no_flops``.
All of them work on specs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import prod
from typing import Any, NamedTuple

from prototorch.spec import Spec

Specs = tuple[Spec, ...]
Attrs = Mapping[str, Any]


class ValueLimits(NamedTuple):
    """The values that an op takes: from ``low`` to ``high``, both included; None: no limit. NaN lies outside.

    excludes_zero: whether 0 is no valid value. are_indices: whether they are positions, which decides the type of the
    error.
    """

    low: float | None = None
    high: float | None = None
    excludes_zero: bool = False
    are_indices: bool = False


#: number of an input -> the values that it may have
ValueBounds = Mapping[int, ValueLimits]
NONZERO = ValueLimits(excludes_zero=True)


def within(bounds: ValueLimits, dtype: str) -> ValueLimits:
    """The bounds without those limits that every integer of a type satisfies."""
    if not dtype.startswith(("int", "uint")):
        return bounds
    bits, is_signed = int(dtype.lstrip("uint")), dtype.startswith("int")
    smallest, largest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    low = None if bounds.low is None or bounds.low <= smallest else bounds.low
    high = None if bounds.high is None or bounds.high >= largest else bounds.high
    return bounds._replace(low=low, high=high)


def positions(size: int, low: int = 0) -> ValueLimits:
    """The bounds of indices of an axis; low: of negative ones, which count from the end."""
    return ValueLimits(low, size - 1, are_indices=True)


def nonzero_integers(spec: Spec, position: int) -> ValueBounds:
    """The bounds of a divisor of integers, which is the input at a position."""
    return {} if spec.is_float else {position: NONZERO}


class PrecisionClass(Enum):
    """How an op takes part in mixed precision (automatic casting)."""

    #: computes in the dtype of its inputs: in low precision as soon as one input is
    FOLLOWS = "follows"
    #: reads low-precision copies of its float32 inputs: most of the time of a step is spent in such ops
    LOW = "low"
    #: takes inputs of different dtypes as they are
    MIXED = "mixed"
    #: returns float32: a narrow dtype has too few values for the result
    FLOAT32 = "float32"


class BatchDependence(Enum):
    """How a value depends on the samples of a batch."""

    #: not at all
    INDEPENDENT = "independent"
    #: not at all, and it is equal at all positions of its first axis
    UNIFORM = "uniform"
    #: its first axis runs over the samples in order, with an equal number of positions for each
    BATCHED = "batched"
    #: in any other way
    MIXED = "mixed"


INDEPENDENT, UNIFORM = BatchDependence.INDEPENDENT, BatchDependence.UNIFORM
BATCHED, MIXED = BatchDependence.BATCHED, BatchDependence.MIXED
Dependences = Sequence[BatchDependence]


def total_bytes(specs: Sequence[Spec]) -> int:
    """Bytes of arrays of these specs."""
    return sum(s.nbytes for s in specs)


# --- transpositions


def axis_before_transpose(op: Any, specs: Specs, attrs: Attrs, order: tuple[int, ...]) -> Attrs:
    """Of ops along the attribute ``axis`` of their inputs (1 where there is none)."""
    return {**attrs, "axis": order[attrs.get("axis", 1) % len(order)]}


def slices_before_transpose(op: Any, specs: Specs, attrs: Attrs, order: tuple[int, ...]) -> Attrs:
    """Of ops whose attributes have one entry for each axis."""
    places = sorted(range(len(order)), key=order.__getitem__)
    return {name: tuple(values[i] for i in places) for name, values in attrs.items()}


def reduction_before_transpose(op: Any, specs: Specs, attrs: Attrs, order: tuple[int, ...]) -> Attrs | None:
    """Of reductions: None where the axes that stay would be in another order."""
    axis = attrs.get("axis")
    over = range(len(order)) if axis is None else (axis,) if isinstance(axis, int) else axis
    dropped_axes = {order[a % len(order)] for a in over}
    remaining = [a for a in order if a not in dropped_axes]
    if attrs.get("keepdims") or remaining != sorted(remaining):
        return None
    return {**attrs, "axis": tuple(sorted(dropped_axes))}


# --- floating-point operations


def no_flops(op: Any, ins: Specs, outs: Specs, attrs: Attrs) -> int:
    """Of ops that only move elements."""
    return 0


def flops_per_input(op: Any, ins: Specs, outs: Specs, attrs: Attrs) -> int:
    """Of reductions: one operation for each element of input 0."""
    return ins[0].size


def flops_per_output(count: int) -> Callable[..., Any]:
    """Of ops that take ``count`` operations for each element of output 0."""

    def flops(op: Any, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return count * outs[0].size

    return flops


def pool_flops(op: Any, ins: Specs, outs: Specs, attrs: Attrs) -> int:
    """Of pooling: one operation for each element of each window."""
    return min(ins[0].size, outs[0].size) * prod(attrs["kernel"])


def recurrent_flops(products: int, each: int) -> Callable[..., Any]:
    """Of recurrent ops: ``products`` products of the state with the recurrent weights in each time step, and ``each``
    operations for each element of the gates. Inputs: x [N, T, gates * units], weights [units, gates * units]."""

    def flops(op: Any, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return ins[0].size * (2 * products * ins[1].shape[0] + each)

    return flops


# --- bytes moved


def lookup_bytes(op: Any, ins: Specs, outs: Specs, attrs: Attrs) -> int:
    """Of ops that read only as much of input 0 as they write."""
    return total_bytes(ins[1:]) + 2 * total_bytes(outs)


# --- the batch axis: whether the outputs are BATCHED where an input is


def only_first_batched(op: Any, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
    """Input 0 has the batch axis; the others (weights) do not depend on the samples."""
    return dependences[0] is BATCHED and all(d in (INDEPENDENT, UNIFORM) for d in dependences[1:])


def all_batched(op: Any, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
    """All inputs have the batch axis."""
    return all(d is BATCHED for d in dependences)


def last_axis_batched(op: Any, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
    """The op works along the last axis, which is not the batch axis."""
    return all(d is BATCHED for d in dependences) and all(s.ndim > 1 for s in ins)


def axis_batched(default: int | None = None) -> Callable[..., Any]:
    """The op works along its attribute ``axis`` (``default`` where there is none), which is not the batch axis."""

    def preserves(op: Any, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        x = ins[0]
        if not all(d in (BATCHED, UNIFORM) and s.shape[0] == x.shape[0] for s, d in zip(ins, dependences, strict=True)):
            return False
        axis = attrs.get("axis", default)
        axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        return all(a % x.ndim != 0 for a in axes)

    return preserves


def elementwise_batched(ins: Specs, outs: Specs, dependences: Dependences) -> bool:
    """Inputs with the batch axis have it in full; the others broadcast along it or are uniform."""
    out = outs[0]

    def matches(spec: Spec, dependence: BatchDependence) -> bool:
        full = spec.ndim == out.ndim and spec.shape[0] == out.shape[0]
        if dependence is BATCHED:
            return full
        return spec.ndim < out.ndim or spec.shape[:1] == (1,) or (dependence is UNIFORM and full)

    return all(matches(s, d) for s, d in zip(ins, dependences, strict=True))


def elementwise_uniform(ins: Specs, out: Spec, dependences: Dependences) -> BatchDependence:
    """UNIFORM where every input is, or broadcasts along the first axis; else INDEPENDENT."""
    uniform = (d is UNIFORM or s.ndim < out.ndim or s.shape[:1] == (1,) for s, d in zip(ins, dependences, strict=True))
    return UNIFORM if out.ndim and all(uniform) else INDEPENDENT
