"""The gradient of an embedding on a GPU: rows added at their indices, for indices of every kind, beside PyTorch's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.gpu_calls import Report
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error
from benchmarks.gpu_sequences import GRAPHS, run_captured

#: tokens, rows of the table, width
SHAPES = ((4096, 32_000, 256), (65_536, 32_000, 256), (1 << 20, 32_000, 64))


def index_kinds(tokens: int, rows: int) -> dict[str, np.ndarray]:
    """Indices as they come: any, mostly padding, all the same."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, rows, tokens).astype(np.int32)
    padded = np.where(rng.random(tokens) < 0.7, 0, drawn).astype(np.int32)
    return {"random": drawn, "padded": padded, "all the same": np.full(tokens, rows - 1, np.int32)}


def compare_row_sums(say: Report) -> None:
    """Time and check the sums, twice each: they must give the same bits. Raises AssertionError where they are wrong."""
    backend, wrong = gpu_backend("fp32"), []
    for tokens, rows, width in SHAPES:
        values = np.random.default_rng(1).integers(-3, 4, (tokens, width)).astype(np.float32)  # sums are exact
        for kind, indices in index_kinds(tokens, rows).items():
            run = [("embedding_grad", [values, indices], {"rows": rows})]
            want = np.zeros((rows, width), np.float32)
            np.add.at(want, indices, values)
            (seconds, (one,)), (_, (two,)) = run_captured(backend, run), run_captured(backend, run)
            title = f"{tokens:,} tokens, {kind}, {rows:,} rows of {width}"
            if relative_error(one, want) > 0 or not np.array_equal(one, two):
                wrong.append(title)
            moved = (values.nbytes + 2 * want.nbytes) / seconds / 1e9
            line = f"{title}: {seconds * 1e6:.0f} us ({moved:,.0f} GB/s)"
            try:
                line += f", PyTorch's {time_torch(values, indices, rows) * 1e6:.0f} us"
            except Exception as why:  # PyTorch is not needed for the rest
                line += f", PyTorch's cannot be timed: {type(why).__name__}: {why}"
            say(line)
    assert not wrong, "wrong sums, or other bits in a second run: " + "; ".join(wrong)


def time_torch(values: np.ndarray, indices: np.ndarray, rows: int) -> float:
    """Seconds of PyTorch's embedding_dense_backward, without a CUDA graph: it waits for the GPU."""
    torch: Any = importlib.import_module("torch")
    g, i = torch.from_numpy(values).cuda(), torch.from_numpy(indices).cuda().long()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for turn in range(GRAPHS + 1):
        if turn == 1:
            start.record()
        torch.ops.aten.embedding_dense_backward(g, i, rows, -1, False)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / GRAPHS / 1e3
