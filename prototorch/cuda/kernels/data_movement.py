"""Ops that move elements: reordering, slicing, concatenation, padding. Contiguous elements are moved in vectors of 16
bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    ITEM_BYTES,
    InputArg,
    KernelLaunch,
    LaunchSequence,
    OutputArg,
    contiguous_strides,
    cuda_kernel,
    current_device,
    grid_stride_launch,
    index_scalar,
    kernel_source,
    memory_order,
    per_block_launch,
    vector_width,
)
from prototorch.ops.reduce import normalize_axes
from prototorch.ops.shape import pad_source_indices
from prototorch.spec import Spec

__all__ = ["upload_table"]

Specs = tuple[Spec, ...]
_UNSIGNED_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def storage_type(spec: Spec) -> str:
    """The unsigned integer type with the size of an element."""
    return _UNSIGNED_TYPES[ITEM_BYTES[spec.dtype]]


def value_bits(value: float, dtype: str) -> int:
    """The bits of a value in a dtype."""
    if dtype == "bfloat16":
        wide = int(np.float32(value).view(np.uint32))
        return (wide + 0x7FFF + (wide >> 16 & 1)) >> 16 if value == value else 0x7FC0
    return int(np.asarray(value, dtype).view(_BITS[ITEM_BYTES[dtype]]))


def strided_copy(
    kind: str,
    sizes: Sequence[int],
    strides: Sequence[int],
    base: int,
    spec: Spec,
    source_: Any,
    target: Any,
    largest: int,
) -> KernelLaunch:
    """A launch that goes through axes of these sizes, the slowest first, of one contiguous array, and computes the
    offset in the other by its strides. kind: "gather" goes through what is written, "place" through what is read."""
    dims: list[tuple[int, int]] = []
    for n, s in zip(sizes, strides, strict=True):
        if n == 1:
            continue
        if dims and dims[-1][1] == s * n:
            dims[-1] = dims[-1][0] * n, s
        else:
            dims.append((n, s))
    count = prod(n for n, _ in dims)
    pack = 1
    if dims and dims[-1][1] == 1:
        pack = vector_width(spec, dims[-1][0])
        while pack > 1 and (base % pack or any(s % pack for _, s in dims[:-1])):
            pack //= 2
    lines = [f"at += (i64)(i % {n}) * {s}ll; i /= {n};" for n, s in reversed(dims[1:])]
    lines += [f"at += (i64)i * {s}ll;" for _, s in dims[:1]]
    source = kernel_source(
        "data_movement", largest, X=storage_type(spec), PACK=pack, OFFSET=" ".join(lines), INNER=1, COUNT=1, ROWS=1
    )
    n = count // pack
    return grid_stride_launch(source, kind, n, index_scalar(n, largest), source_, target, np.int64(base))


def fill(spec: Spec, value: float, target: Any) -> KernelLaunch:
    """A launch that fills an array with one value."""
    source = kernel_source(
        "data_movement", spec.size, X=storage_type(spec), PACK=1, OFFSET="", INNER=1, COUNT=1, ROWS=1
    )
    return grid_stride_launch(
        source, "fill", spec.size, index_scalar(spec.size, spec.size), target, np.uint64(value_bits(value, spec.dtype))
    )


def tiled_transpose(spec: Spec, batches: int, rows: int, columns: int) -> KernelLaunch:
    """A launch that transposes matrices, by tiles."""
    down, across = -(-rows // 32), -(-columns // 32)
    tiles = batches * down * across
    source = kernel_source(
        "data_movement", spec.size, X=storage_type(spec), PACK=1, OFFSET="", INNER=1, COUNT=1, ROWS=1
    )
    counts = tuple(index_scalar(v, spec.size) for v in (tiles, down, across))
    return per_block_launch(
        source, "turn", tiles, *counts, np.int32(rows), np.int32(columns), InputArg(0), OutputArg(0)
    )


@cuda_kernel("reorder", layouts=True)
def reorder(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Conversion between the two layouts."""
    x, y = ins[0], outs[0]
    places = prod(x.shape[2:])
    if x.layout == y.layout:
        return LaunchSequence(
            strided_copy("gather", x.shape, contiguous_strides(Spec(x.shape)), 0, x, InputArg(0), OutputArg(0), x.size)
        )
    if y.layout is not None:
        return LaunchSequence(tiled_transpose(x, x.shape[0], x.shape[1], places))
    return LaunchSequence(tiled_transpose(x, x.shape[0], places, x.shape[1]))


@cuda_kernel("transpose")
def transpose(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The axes in another order; where the last one moves, by tiles."""
    (x,), order = ins, [a for a in attrs["order"] if ins[0].shape[a] > 1]
    groups: list[list[int]] = []  # runs of axes that stay adjacent
    for a in order:
        before = groups[-1][-1] if groups else None
        if before is not None and all(x.shape[k] == 1 for k in range(before + 1, a)) and before < a:
            groups[-1].append(a)
        else:
            groups.append([a])
    ranks = sorted(range(len(groups)), key=lambda i: groups[i][0])
    sizes = [prod(x.shape[a] for a in g) for g in groups]
    if ranks == [1, 0]:
        return LaunchSequence(tiled_transpose(x, 1, sizes[1], sizes[0]))
    if ranks == [0, 2, 1]:
        return LaunchSequence(tiled_transpose(x, sizes[0], sizes[2], sizes[1]))
    strides_of_input = contiguous_strides(x)
    strides = [strides_of_input[a] for a in attrs["order"]]
    return LaunchSequence(strided_copy("gather", outs[0].shape, strides, 0, x, InputArg(0), OutputArg(0), x.size))


def _in_memory_order(spec: Spec, values: Sequence[int]) -> list[int]:
    return [values[a] for a in memory_order(spec)]


@cuda_kernel("slice", layouts=True)
def slice_(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """A slice of each axis."""
    x, y = ins[0], outs[0]
    strides_of_input = contiguous_strides(x)
    base = sum(a * s for a, s in zip(attrs["start"], strides_of_input, strict=True))
    strides = [k * s for k, s in zip(attrs["step"], strides_of_input, strict=True)]
    return LaunchSequence(
        strided_copy(
            "gather",
            _in_memory_order(y, y.shape),
            _in_memory_order(y, strides),
            base,
            x,
            InputArg(0),
            OutputArg(0),
            x.size,
        )
    )


@cuda_kernel("slice_grad", layouts=True)
def slice_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Zeros, and the input at the elements of the slice."""
    x, y = ins[0], outs[0]
    strides_of_input = contiguous_strides(y)
    base = sum(a * s for a, s in zip(attrs["start"], strides_of_input, strict=True))
    strides = [k * s for k, s in zip(attrs["step"], strides_of_input, strict=True)]
    copy_input = strided_copy(
        "place", _in_memory_order(x, x.shape), _in_memory_order(x, strides), base, x, InputArg(0), OutputArg(0), y.size
    )
    return LaunchSequence(fill(y, 0.0, OutputArg(0)), copy_input)


@cuda_kernel("flip", layouts=True)
def flip(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The elements of some axes in reverse."""
    x, y = ins[0], outs[0]
    strides_of_input, flipped_axes = contiguous_strides(x), normalize_axes(attrs["axis"], x.ndim)
    base = sum((x.shape[a] - 1) * strides_of_input[a] for a in flipped_axes)
    strides = [-s if a in flipped_axes else s for a, s in enumerate(strides_of_input)]
    return LaunchSequence(
        strided_copy(
            "gather",
            _in_memory_order(y, y.shape),
            _in_memory_order(y, strides),
            base,
            x,
            InputArg(0),
            OutputArg(0),
            x.size,
        )
    )


@cuda_kernel("concat", layouts=True)
def concat(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Concatenation along an axis: each input copied to its offset."""
    y = outs[0]
    (axis,) = normalize_axes(attrs["axis"], y.ndim)
    strides_of_input, launches, start = contiguous_strides(y), [], 0
    for i, x in enumerate(ins):
        launches.append(
            strided_copy(
                "place",
                _in_memory_order(x, x.shape),
                _in_memory_order(x, strides_of_input),
                start * strides_of_input[axis],
                x,
                InputArg(i),
                OutputArg(0),
                y.size,
            )
        )
        start += x.shape[axis]
    return LaunchSequence(*launches)


@cuda_kernel("pad", layouts=True)
def pad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Padding with a constant, or in one axis with elements of the input."""
    x, y = ins[0], outs[0]
    pads = attrs["pads"]
    if attrs.get("mode", "constant") == "constant":
        strides_of_input = contiguous_strides(y)
        base = sum(a * s for (a, _), s in zip(pads, strides_of_input, strict=True))
        copy_input = strided_copy(
            "place",
            _in_memory_order(x, x.shape),
            _in_memory_order(x, strides_of_input),
            base,
            x,
            InputArg(0),
            OutputArg(0),
            y.size,
        )
        return LaunchSequence(fill(y, attrs.get("value", 0.0), OutputArg(0)), copy_input)
    padded_axes = [i for i, pair in enumerate(pads) if any(pair)]
    if x.layout or y.layout or len(padded_axes) != 1:
        return None
    (axis,) = padded_axes
    return take_rows(x, y, axis, pad_source_indices(x.shape[axis], pads[axis][0], pads[axis][1], attrs["mode"]))


def take_rows(x: Spec, y: Spec, axis: int, table: Sequence[int]) -> LaunchSequence | None:
    """Rows along an axis, by a table of indices."""
    inner, rows = prod(x.shape[axis + 1 :]), x.shape[axis]
    if any(not 0 <= k < rows for k in table):
        return None
    pack, largest = vector_width(x, inner), max(x.size, y.size)
    source = kernel_source(
        "data_movement", largest, X=storage_type(x), PACK=pack, OFFSET="", INNER=inner, COUNT=len(table), ROWS=rows
    )
    take_launch = grid_stride_launch(
        source,
        "rows_from",
        y.size // pack,
        index_scalar(y.size // pack, largest),
        InputArg(0),
        OutputArg(0),
        upload_table(table),
    )
    return LaunchSequence(take_launch)


def upload_table(table: Sequence[int]) -> Any:
    """A table of int32 on the device that kernels are being prepared for."""
    return current_device().upload(np.asarray(table, np.int32))


@cuda_kernel("static_gather")
def gather(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Elements at fixed indices along an axis."""
    (axis,) = normalize_axes(attrs["axis"], ins[0].ndim)
    rows = ins[0].shape[axis]
    return take_rows(ins[0], outs[0], axis, [k + rows if k < 0 else k for k in attrs["indices"]])
