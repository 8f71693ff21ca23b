"""Cumulative sums, products and extrema, sums of exponentials, and linear recurrences along an axis."""

from __future__ import annotations

from math import isqrt, prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
)
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
MANY_ROWS = 2048  #: that occupy a GPU, so that a thread may walk along a whole row
SHORT_ROW = 512  #: along which a thread may walk
STATE_BYTES = 16
_EXTREMUM = "if (is_nan(v) || (!is_nan(s.v) && v {} s.v)) {{ s.v = v; s.at = at; }}"
#: op -> how an element is joined to the state
_STEPS = {
    "cumsum": "s.v += v;",
    "cummax": _EXTREMUM.format(">="),
    "cummin": _EXTREMUM.format("<="),
    "logcumsumexp": "s.v = log_sum(s.v, v);",
    "cumprod": "s.v *= v;",
    "linear_recurrence": "s.v = factor * s.v + v;",
}
#: whose chunks may be joined: the product of a chunk alone may be infinite where the whole is not
_IN_CHUNKS = ("cumsum", "cummax", "cummin", "logcumsumexp")


def _register(name: str) -> None:
    @cuda_kernel(name)
    def prepare(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
        """One launch, or three where rows are few and long."""
        x, has_indices = ins[-1], len(outs) > 1
        if any(s.dtype != x.dtype for s in (*ins, outs[0])):
            return None
        (axis,) = normalize_axes(attrs.get("axis", -1), x.ndim)
        count, inner = x.shape[axis], prod(x.shape[axis + 1 :])
        outer = x.size // count // inner
        wide = x.dtype == "float64"
        source = kernel_source(
            "scan",
            x.size,
            X=c_type(x),
            COUNT=count,
            INNER=inner,
            REVERSE=int(attrs.get("reverse", False)),
            STEP=_STEPS[name],
            LOGARITHMS=int(name == "logcumsumexp"),
            LOG1P="log1p" if wide else "log1pf",
            EXP="exp" if wide else "expf",
        )
        indices = OutputArg(1) if has_indices else np.uint64(0)
        rows = outer * inner
        if name not in _IN_CHUNKS or rows >= MANY_ROWS or count <= SHORT_ROW:
            factors = InputArg(0) if name == "linear_recurrence" else np.uint64(0)
            args = index_scalar(rows, x.size), InputArg(len(ins) - 1), factors, OutputArg(0), indices
            return LaunchSequence(grid_stride_launch(source, "scan", rows, *args))
        chunk = isqrt(count - 1) + 1
        chunks = -(-count // chunk)
        states, threads = WorkspaceArg(0), rows * chunks

        def number(value: int) -> Any:
            return index_scalar(value, x.size)

        sizes = number(threads), number(chunk), number(chunks)
        return LaunchSequence(
            grid_stride_launch(source, "scan_chunks", threads, *sizes, InputArg(0), states),
            grid_stride_launch(source, "scan_states", rows, number(rows), number(chunks), states),
            grid_stride_launch(source, "scan_rest", threads, *sizes, InputArg(0), states, OutputArg(0), indices),
            workspace_bytes=STATE_BYTES * threads,
        )


for _name in _STEPS:
    _register(_name)
