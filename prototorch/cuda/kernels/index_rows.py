"""Reading and writing rows at arrays of indices: `advanced_index`, `index_put`, and the gradients of lookups.

Writes are ordered by sorting the rows' numbers, so that values of one row are reduced in a fixed order, in time that
does not depend on how often a row occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    complete_source,
    contiguous_strides,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
)
from prototorch.cuda.kernels.radix_sort import MAX_KEYS, plan_sort
from prototorch.cuda.kernels.segment_reduce import segment_reduce
from prototorch.spec import Spec

__all__ = ["scatter_rows"]

Specs = tuple[Spec, ...]
_HEAD = "typedef typename arithmetic<X>::type A;\n"


def _row_code(indices: Specs, sizes: tuple[int, ...]) -> str:
    """C that computes ``row``, the number of the row at position ``p`` of the broadcast indices ``i0``, ``i1``, ...;
    ``inside`` is false where an index is out of range."""
    wide = np.broadcast_shapes(*(s.shape for s in indices))
    lines = ["i64 row = 0; bool inside = true;"]
    for k, (spec, size) in enumerate(zip(indices, sizes, strict=True)):
        strides = (0,) * (len(wide) - spec.ndim) + contiguous_strides(spec)
        shape = (1,) * (len(wide) - spec.ndim) + spec.shape
        below, terms = prod(wide), []
        for n, size_here, stride in zip(wide, shape, strides, strict=True):
            below //= n
            if size_here > 1:
                terms.append(f"p / {below}u % {n}u * {stride}u")
        at = "p" if spec.shape == wide else " + ".join(terms) or "0"
        check = f"inside = inside && v >= 0 && v < {size}; row = row * {size} + v;"
        lines.append(f"{{ const i64 v = (i64)get(i{k}[{at}]); {check} }}")
    return " ".join(lines)


def _parameters(indices: Specs) -> str:
    return ", ".join(f"const {c_type(s)}* i{k}" for k, s in enumerate(indices))


@dataclass(frozen=True)
class _IndexedArray:
    """An array as [outer, rows, inner], the indexed axes being the rows; ``address``: C of the offset of element ``c``
    of ``row`` of ``o``."""

    outer: int
    rows: int
    inner: int
    address: str


def _as_rows(x: Spec, axes: tuple[int, ...]) -> _IndexedArray:
    """Adjacent axes are rows where they lie; separated ones are in front, as in the op's result."""
    axes = tuple(a % x.ndim for a in axes)
    rows = prod(x.shape[a] for a in axes)
    if axes == tuple(range(axes[0], axes[-1] + 1)):
        inner = prod(x.shape[axes[-1] + 1 :])
        return _IndexedArray(prod(x.shape[: axes[0]]), rows, inner, f"(o * {rows}u + row) * {inner}u + c")
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    terms, strides = [], contiguous_strides(x)
    for name, group in (("row", axes), ("c", rest)):
        below = prod(x.shape[a] for a in group)
        for a in group:
            below //= x.shape[a]
            terms.append(f"{name} / {below}u % {x.shape[a]}u * {strides[a]}u")
    return _IndexedArray(1, rows, prod(x.shape[a] for a in rest), " + ".join(terms))


@cuda_kernel("advanced_index")
def advanced_index(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The elements at arrays of indices."""
    x, indices, y = ins[0], ins[1:], outs[0]
    table = _as_rows(x, attrs["axes"])
    inner = table.inner
    count, largest = prod(np.broadcast_shapes(*(s.shape for s in indices))), max(x.size, y.size)
    missing = "(A)NOT_A_NUMBER" if x.is_float else "(A)0"
    body = f"""{_HEAD}FN index element_of(index o, index row, index c) {{ return {table.address}; }}
FN X read_row(const X* x, index o, index c, index p, {_parameters(indices)}) {{
    {_row_code(indices, tuple(x.shape[a] for a in attrs["axes"]))}
    X missing;
    put(missing, {missing});
    return inside ? x[element_of(o, (index)row, c)] : missing;
}}
KERNEL advanced_index(index n, const X* x, {_parameters(indices)}, X* y) {{
    EACH(e, n) {{
        const index c = e % {inner}u, p = e / {inner}u % {count}u, o = e / {inner}u / {count}u;
        y[e] = read_row(x, o, c, p{"".join(f", i{k}" for k in range(len(indices)))});
    }}
}}
"""
    source = complete_source(body, largest, {"X": c_type(x)})
    args = (index_scalar(y.size, largest), *(InputArg(k) for k in range(len(ins))), OutputArg(0))
    return LaunchSequence(grid_stride_launch(source, "advanced_index", y.size, *args))


@cuda_kernel("index_put")
def index_put(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Values written to, or joined with, the elements at arrays of indices."""
    x, indices = ins[0], ins[2:]
    table = _as_rows(x, attrs["axes"])
    count = prod(np.broadcast_shapes(*(s.shape for s in indices)))
    code = _row_code(indices, tuple(x.shape[a] for a in attrs["axes"]))
    reduce = attrs.get("reduce", "set")
    index_args = tuple(InputArg(2 + k) for k in range(len(indices)))
    sizes = table.outer, count, table.inner, table.rows
    return scatter_rows(x, sizes, indices, index_args, code, InputArg(1), reduce, True, table.address)


def scatter_rows(
    x: Spec,
    sizes: tuple[int, int, int, int],
    indices: Specs,
    index_args: tuple[Any, ...],
    row_code: str,
    values: Any,
    reduce: str,
    joins_input: bool = False,
    address: str = "",
) -> LaunchSequence | None:
    """Rows of values [outer, count, inner] reduced into the output [outer, rows, inner]; None for too many of them.

    Args:
        x: the spec of an array of the values' dtype.
        sizes: outer, count, inner, rows.
        indices, index_args: specs and arguments of the arrays that ``row_code`` reads.
        row_code: C that declares, for a position ``p`` below ``count``, i64 ``row`` and bool ``inside``.
        values: the argument of the values.
        reduce: one of `segment_reduce.REDUCTIONS`.
        joins_input: whether the first input holds what the output begins with, instead of zeros.
        address: see `segment_reduce.segment_reduce`.
    """
    outer, count, inner, rows = sizes
    size = outer * rows * inner
    if count >= MAX_KEYS or rows >= MAX_KEYS:
        return None
    sort = plan_sort(count, rows.bit_length())
    launches, end = segment_reduce(
        x,
        sizes,
        sort,
        values,
        OutputArg(0),
        reduce,
        joins_input and reduce != "set",
        max(size, outer * count * inner),
        address,
    )
    begin = "if (i < size && old != out) out[i] = old[i];" if joins_input else "if (i < size) put(out[i], (A)0);"
    body = f"""{_HEAD}KERNEL begin_rows(index n, index size, index count, {_parameters(indices)}, u32* keys,
                  const X* old, X* out) {{
    EACH(i, n) {{
        {begin}
        if (i < count) {{
            const index p = i;
            {row_code}
            keys[i] = inside ? (u32)row : {rows}u;
        }}
    }}
}}
"""
    most = max(size, count)
    source = complete_source(body, most, {"X": c_type(x)})
    numbers = (index_scalar(n, most) for n in (most, size, count))
    old = InputArg(0) if joins_input else np.uint64(0)
    first = grid_stride_launch(source, "begin_rows", most, *numbers, *index_args, sort.input_keys, old, OutputArg(0))
    return LaunchSequence(first, *sort.launches, *launches, workspace_bytes=end)


@cuda_kernel("embedding_grad")
def embedding_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Rows added at their indices."""
    values, indices = ins
    y, n = outs[0], indices.size
    sizes = 1, n, prod(y.shape[1:]), y.shape[0]
    code = _row_code((indices,), (y.shape[0],))
    return scatter_rows(values, sizes, (indices,), (InputArg(1),), code, InputArg(0), "sum")


@cuda_kernel("scatter_add_along_axis")
def scatter_add_along_axis(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Elements added at their indices along the last axis."""
    values, indices = ins
    width, picks = outs[0].shape[-1], indices.shape[-1]
    code = f"""i64 row = (i64)get(i0[p]); if (row < 0) row += {width};
            const bool inside = row >= 0 && row < {width}; row += (i64)(p / {picks}u) * {width};"""
    sizes = 1, values.size, 1, outs[0].size
    return scatter_rows(values, sizes, (indices,), (InputArg(1),), code, InputArg(0), "sum")
