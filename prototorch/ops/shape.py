"""Ops that move elements without changing them."""

from __future__ import annotations

from math import prod
from types import EllipsisType
from typing import Any

import numpy as np

from prototorch.errors import ShapeError
from prototorch.ops.core import Op
from prototorch.ops.facts import (
    Attrs,
    Dependences,
    Specs,
    axis_batched,
    axis_before_transpose,
    no_flops,
    only_first_batched,
    slices_before_transpose,
    total_bytes,
)
from prototorch.ops.operators import OPS, op_function
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

Pads = tuple[tuple[int, int], ...]


class Reshape(Op):
    """The same elements in another shape; one dimension may be -1."""

    moves_elements = True
    is_view = True
    derivatives = (lambda g, y, x, shape: reshape(g, shape=tuple(x.shape)),)
    flops = no_flops
    preserves_batch = only_first_batched  # the elements of a sample are contiguous

    def infer_spec(self, x: Spec, shape: tuple[int, ...]) -> Spec:
        count = prod(n for n in shape if n != -1)
        if shape.count(-1) > 1:
            raise self.shape_error(f"only one dimension may be -1, got {list(shape)}")
        if -1 in shape:
            if count == 0 or x.size % count:
                raise self.shape_error(
                    f"{list(x.shape)} has {x.size} elements, which do not divide evenly into {list(shape)}"
                )
            shape = tuple(x.size // count if n == -1 else n for n in shape)
        elif count != x.size:
            raise self.shape_error(f"{list(x.shape)} has {x.size} elements, but {list(shape)} has {count}")
        return Spec(shape, x.dtype)

    def reference(self, xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
        return xp.reshape(x, shape)

    def array_view(self, array: Any, shape: tuple[int, ...]) -> Any | None:
        result = array.reshape(shape)
        is_view = array.flags.c_contiguous or _address(array) == _address(result)  # a copy begins elsewhere
        return result if is_view else None


def _address(array: Any) -> int:
    """Where the first element is in memory."""
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    return int(array.data.ptr)  # CuPy's


class Transpose(Op):
    """The axes in another order."""

    moves_elements = True
    derivatives = (lambda g, y, x, order: transpose(g, order=_inverse_permutation(order)),)
    flops = no_flops

    def infer_spec(self, x: Spec, order: tuple[int, ...]) -> Spec:
        if sorted(order) != list(range(x.ndim)):
            raise self.shape_error(f"{list(order)} is not a permutation of {x.ndim} axes")
        return Spec(tuple(x.shape[i] for i in order), x.dtype)

    def reference(self, xp: Any, x: Any, order: tuple[int, ...]) -> Any:
        return xp.permute_dims(x, order)

    def array_view(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.transpose(order)

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return attrs["order"][0] == 0


def _inverse_permutation(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


class Concat(Op):
    """The inputs concatenated along one axis."""

    flops = no_flops
    attrs_before_transpose = axis_before_transpose
    preserves_batch = axis_batched()

    def infer_spec(self, *specs: Spec, axis: int) -> Spec:
        first = specs[0]
        (axis,) = normalize_axes(axis, first.ndim, self)
        for s in specs:
            if s.ndim != first.ndim or any(
                a != b for i, (a, b) in enumerate(zip(s.shape, first.shape, strict=True)) if i != axis
            ):
                raise self.shape_error(
                    f"shapes {list(first.shape)} and {list(s.shape)} must be equal except along axis {axis}"
                )
            if s.dtype != first.dtype:
                raise self.shape_error(f"expected inputs of the same dtype, got {first.dtype} and {s.dtype}")
        total = sum(s.shape[axis] for s in specs)
        return Spec((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)

    def reference(self, xp: Any, *arrays: Any, axis: int) -> Any:
        return xp.concat(arrays, axis=axis)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        (axis,) = normalize_axes(attrs["axis"], inputs[0].ndim)
        result, start = [], 0
        for x, need in zip(inputs, needs, strict=True):
            stop = start + x.shape[axis]
            key = (slice(None),) * axis + (slice(start, stop),)
            result.append(getitem(grads[0], key) if need else None)
            start = stop
        return result


class Slice(Op):
    """``slice_(x, start=, stop=, step=)``, one integer per axis; steps are positive."""

    derivatives = (
        lambda g, y, x, start, stop, step: slice_grad(g, shape=tuple(x.shape), start=start, stop=stop, step=step),
    )
    flops = no_flops
    attrs_before_transpose = slices_before_transpose

    def infer_spec(self, x: Spec, start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...]) -> Spec:
        # not len(range(...)), which cannot be larger than 2 ** 63
        shape = tuple(
            max(0, (b - a + s - (1 if s > 0 else -1)) // s) for a, b, s in zip(start, stop, step, strict=True)
        )
        return Spec(shape, x.dtype)

    def reference(self, xp: Any, x: Any, start: Any, stop: Any, step: Any) -> Any:
        return x[tuple(map(slice, start, stop, step))]

    def array_view(self, array: Any, start: Any, stop: Any, step: Any) -> Any:
        return array[tuple(map(slice, start, stop, step))]

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        start, stop, step = (attrs[k][0] for k in ("start", "stop", "step"))
        return start == 0 and stop == ins[0].shape[0] and step == 1

    def bytes_moved(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 2 * total_bytes(outs)


class SliceGrad(Op):
    """The adjoint of `slice_`: zeros of a shape, with the input at the positions that `slice_` reads."""

    derivatives = (lambda g, y, x, shape, start, stop, step: slice_(g, start=start, stop=stop, step=step),)
    flops = no_flops
    attrs_before_transpose = slices_before_transpose

    def infer_spec(self, x: Spec, shape: tuple[int, ...], start: Any, stop: Any, step: Any) -> Spec:
        return Spec(shape, x.dtype)

    def reference(self, xp: Any, x: Any, shape: Any, start: Any, stop: Any, step: Any) -> Any:
        out = xp.zeros(shape, dtype=x.dtype)
        out[tuple(map(slice, start, stop, step))] = x
        return out


class Pad(Op):
    """The input with ``pads`` = ((before, after), ...) per axis, filled by ``mode``: a constant ``value``, or its own
    elements ("reflect", "edge"/"wrap")."""

    flops = no_flops

    def infer_spec(self, x: Spec, pads: Pads, mode: str = "constant", value: float = 0.0) -> Spec:
        if len(pads) != x.ndim:
            raise self.shape_error(f"expected {x.ndim} pairs of pads, got {len(pads)}")
        if mode == "reflect" and any(max(p) >= n for p, n in zip(pads, x.shape, strict=True) if max(p)):
            raise self.shape_error(
                f"pads {[list(p) for p in pads]} must be smaller than the shape {list(x.shape)} to reflect"
            )
        return Spec(tuple(n + a + b for n, (a, b) in zip(x.shape, pads, strict=True)), x.dtype)

    def reference(self, xp: Any, x: Any, pads: Pads, mode: str = "constant", value: float = 0.0) -> Any:
        if mode == "constant":
            shape = tuple(n + a + b for n, (a, b) in zip(x.shape, pads, strict=True))
            out = xp.full(shape, value, dtype=x.dtype)
            out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pads, strict=True))] = x
            return out
        for axis, (n, pair) in enumerate(zip(x.shape, pads, strict=True)):
            if any(pair):
                x = xp.take(x, xp.asarray(pad_source_indices(n, pair[0], pair[1], mode)), axis=axis)
        return x

    def vjp(self, grads, outputs, inputs, needs, attrs):
        g, shape, pads = grads[0], tuple(inputs[0].shape), attrs["pads"]
        if attrs.get("mode", "constant") == "constant":
            ends = tuple(a + n for n, (a, _) in zip(shape, pads, strict=True))
            return [slice_(g, start=tuple(a for a, _ in pads), stop=ends, step=(1,) * len(ends))]
        for axis, (n, pair) in enumerate(zip(shape, pads, strict=True)):
            if any(pair):
                where_from = tuple(pad_source_indices(n, pair[0], pair[1], attrs["mode"]))
                g = OPS["static_scatter_add"](g, indices=where_from, axis=axis, size=n)
        return [g]

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return tuple(attrs["pads"][0]) == (0, 0)


def pad_source_indices(n: int, before: int, after: int, mode: str) -> list[int]:
    """For each position of a padded axis, the index of the element it repeats."""
    positions = range(-before, n + after)
    if mode == "edge":
        return [min(max(i, 0), n - 1) for i in positions]
    if mode == "wrap":
        return [i % n for i in positions]
    return [(n - 1) - abs((n - 1) - abs(i)) for i in positions]


class Flip(Op):
    """The elements in reverse order along the axes."""

    moves_elements = True
    derivatives = (lambda g, y, x, axis: flip(g, axis=axis),)
    flops = no_flops
    preserves_batch = axis_batched()

    def infer_spec(self, x: Spec, axis: int | tuple[int, ...]) -> Spec:
        normalize_axes(axis, x.ndim, self)
        return Spec(x.shape, x.dtype)

    def reference(self, xp: Any, x: Any, axis: int | tuple[int, ...]) -> Any:
        return xp.flip(x, axis=axis)


reshape, transpose, concat, slice_, slice_grad = Reshape(), Transpose(), Concat(), Slice(), SliceGrad()
pad, flip = Pad(), Flip()


@op_function
def getitem(x: Any, key: Any) -> Any:
    """Basic slicing, expressed in `slice_`, `flip` and `reshape`."""
    key = key if isinstance(key, tuple) else (key,)
    num_indices = sum(1 for k in key if k is not None and not isinstance(k, EllipsisType))
    if num_indices > x.ndim:
        raise ShapeError(f"too many indices: {num_indices} for {x.ndim} dimensions")
    if not any(isinstance(k, EllipsisType) for k in key):
        key = (*key, ...)
    ranges: list[range] = []
    flips: list[int] = []
    shape: list[int] = []
    for k in key:
        axis = len(ranges)
        if k is None:
            shape.append(1)
        elif isinstance(k, EllipsisType):
            for n in x.shape[axis : axis + x.ndim - num_indices]:
                ranges.append(range(n))
                shape.append(n)
        elif isinstance(k, slice):
            indices = range(*k.indices(x.shape[axis]))
            if indices.step < 0:
                flips.append(axis)
                indices = indices[::-1]
            ranges.append(indices)
            shape.append(len(indices))
        else:
            n = x.shape[axis]
            if not -n <= int(k) < n:
                raise ShapeError(f"index {k} is out of range for an axis of size {n}")
            ranges.append(range(int(k) % n, int(k) % n + 1))
    start = tuple(r.start for r in ranges)
    stop = tuple(max(r.stop, r.start) for r in ranges)
    step = tuple(r.step for r in ranges)
    if any(start) or stop != tuple(x.shape) or any(s != 1 for s in step):
        x = slice_(x, start=start, stop=stop, step=step)
    if flips:
        x = flip(x, axis=tuple(flips))
    return x if tuple(shape) == tuple(x.shape) else reshape(x, shape=tuple(shape))


OPS["getitem"] = getitem


@op_function
def expand_dims(x: Any, axis: int) -> Any:
    """A new axis of size 1 at a position of the result."""
    axis %= x.ndim + 1
    return reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


@op_function
def squeeze(x: Any, axis: int) -> Any:
    """The input without an axis of size 1."""
    (axis,) = normalize_axes(axis, x.ndim, reshape)
    if x.shape[axis] != 1:
        raise ShapeError(f"axis {axis} of {list(x.shape)} cannot be squeezed: its size is {x.shape[axis]}")
    return reshape(x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


@op_function
def stack(values: Any, axis: int = 0) -> Any:
    """Values of one shape along a new axis."""
    return concat(*(expand_dims(v, axis) for v in values), axis=axis % (values[0].ndim + 1))


@op_function
def split(x: Any, parts: int, axis: int) -> list[Any]:
    """Equal parts along an axis."""
    (axis,) = normalize_axes(axis, x.ndim, slice_)
    if x.shape[axis] % parts:
        raise ShapeError(f"axis {axis} of {list(x.shape)} cannot be split into {parts} equal parts")
    size = x.shape[axis] // parts
    lead = (slice(None),) * axis
    return [getitem(x, (*lead, slice(i * size, (i + 1) * size))) for i in range(parts)]


@op_function
def swap_axes(x: Any, a: int, b: int) -> Any:
    """Two axes exchanged."""
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return transpose(x, order=tuple(order))


@op_function
def repeat(x: Any, times: int, axis: int) -> Any:
    """Each element repeated next to itself."""
    (axis,) = normalize_axes(axis, x.ndim, reshape)
    wide = OPS["broadcast_to"](expand_dims(x, axis + 1), shape=(*x.shape[: axis + 1], times, *x.shape[axis + 1 :]))
    return reshape(wide, shape=(*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :]))
