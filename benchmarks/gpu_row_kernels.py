"""Layer norm and softmax on a GPU with a block for each row and with a warp a row (the candidate `row_per_warp`).

    python -m benchmarks.gpu_row_kernels

Each line has the bytes a second of both, for arrays of one size and rows of 64 to 8,192 elements. The bytes are those
that must move: each input once, each output once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpu_calls import Report
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error
from benchmarks.gpu_sequences import Run, candidates, run_captured
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS

CANDIDATE = "row_per_warp"
COLUMNS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ELEMENTS = 1 << 25  # of an array: 64 MiB in bfloat16, more than the L2 cache holds
PRECISIONS = ("bf16", "fp32")
CHECKED_ROWS = 48  # first and last rows, compared with the reference implementation in float32
#: relative to the largest element: a rounding to 8 bits of mantissa; sums in another order
TOLERANCE = {"bf16": 2.0**-7, "fp32": 2e-5}


def row_runs(columns: int, base: np.ndarray) -> list[tuple[Run, int]]:
    """Ops on rows of ``base``'s elements, each with the arrays of that size that it must read and write."""
    x = base.reshape(-1, columns)
    g = x[::-1].copy()
    rows, rng = len(x), np.random.default_rng(2)
    gamma, beta = (rng.standard_normal(columns).astype(np.float32) for _ in range(2))
    labels = rng.integers(0, columns, rows).astype(np.int32)
    norm: dict[str, Any] = {"axis": -1, "eps": 1e-5}
    return [
        (("layer_norm", [x, gamma, beta], norm), 2),
        (("layer_norm_grad", [g, x, gamma], norm), 3),
        (("softmax", [x], {}), 2),
        (("log_softmax", [x], {}), 2),
        (("softmax_grad", [g, np.abs(x) / columns], {}), 3),
        (("sparse_softmax_cross_entropy", [x, labels], {}), 1),
        (("sparse_softmax_cross_entropy_grad", [g[:, 0].copy(), x, labels], {}), 2),
    ]


def compare_row_kernels(say: Report) -> None:
    """Time and check both, by op, precision and columns. Raises AssertionError where the candidate is wrong or gives
    other bits in a second run."""
    wrong: list[str] = []
    numbers = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
    for precision in PRECISIONS:
        backend = gpu_backend(precision)
        base = numbers.astype(numpy_dtype("bfloat16")) if precision == "bf16" else numbers[: ELEMENTS // 2]
        for columns in COLUMNS:
            for run, arrays in row_runs(columns, base):
                title = f"{run[0]} {precision}, rows of {columns}"
                with candidates(""):
                    before, _ = run_captured(backend, [run])
                with candidates(CANDIDATE):
                    now, found = run_captured(backend, [run])
                    _, again = run_captured(backend, [run])
                if any(a.tobytes() != b.tobytes() for a, b in zip(found, again, strict=True)):
                    wrong.append(f"{title}: other bits in a second run")
                error = largest_error(run, found)
                if not error <= TOLERANCE[precision]:
                    wrong.append(f"{title}: off by {error:.1e} of the largest element")
                nbytes = arrays * base.nbytes
                say(
                    f"{title}: a block a row {nbytes / before / 1e9:,.0f} GB/s, a warp a row "
                    f"{nbytes / now / 1e9:,.0f} GB/s ({before / now:.2f}x)"
                )
    assert not wrong, "; ".join(wrong)


def largest_error(run: Run, found: list[np.ndarray]) -> float:
    """Of the first and last rows, beside the reference implementation on those rows. The gradients of a norm's weights
    are sums over all rows and are left out."""
    name, arrays, attrs = run
    rows = len(arrays[0])
    few = np.r_[0 : min(CHECKED_ROWS, rows), max(0, rows - CHECKED_ROWS) : rows]

    def of_rows(array: np.ndarray) -> bool:
        return array.ndim == 2 or not name.startswith("layer_norm")

    inputs = [a[few] if of_rows(a) else a for a in arrays]
    inputs = [a if a.dtype == np.int32 else a.astype(np.float32) for a in inputs]
    want = run_on_arrays(lambda *v: OPS[name](*v, **attrs), *inputs)
    want = want if isinstance(want, tuple) else (want,)
    pairs = [(a[few].astype(np.float32), b) for a, b in zip(found, want, strict=True) if of_rows(a)]
    return max(relative_error(a, b) for a, b in pairs)


if __name__ == "__main__":
    compare_row_kernels(print)
