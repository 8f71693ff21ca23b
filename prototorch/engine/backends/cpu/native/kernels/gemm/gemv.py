"""Vector times matrix (GEMV), as in a prediction for one sample: bound by reading the matrix, which is read in order.

Each piece of work adds some rows of the matrix, weighted, to sums of its own; a second task adds the sums of the pieces
in order and applies the epilogue.
"""

from __future__ import annotations

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear
from prototorch.engine.backends.cpu.native.kernels.common.types import Mask
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask

__all__ = ["gemv"]

_MAX_PARTS = 16
_ROWS_TOGETHER = 4  # rows added at once
_SERIAL_ELEMENTS = 1 << 15  # elements of a matrix up to which one thread is as fast


def _sum_rows(k: KernelBuilder, depth: int, n: int, parts: int, where: tuple[int, int]) -> None:
    """Store the weighted sum of a part of the rows. Work items are parts."""
    x, b = k.pointer(where[0]), k.pointer(where[1])
    with k.range(k.first, k.last) as part:
        sums = k.shared.as_type("float32") + part * n
        first, last = part * depth // parts, (part + 1) * depth // parts
        clear(k, sums, n)

        def add(row: Int64, count: int) -> None:
            weights = [x.load(row + r).splat(k.lanes) for r in range(count)]

            def body(i: Int64, mask: Mask) -> None:
                total = sums.load(i, k.lanes, mask)
                for r in range(count):
                    total = k.fma(weights[r], b.load((row + r) * n + i, k.lanes, mask), total)
                sums.store(total, i, mask)

            k.for_each_vector(n, body)

        main_end = last - (last - first) % _ROWS_TOGETHER
        with k.range(first, main_end, _ROWS_TOGETHER) as row:
            add(row, _ROWS_TOGETHER)
        with k.range(main_end, last) as row:
            add(row, 1)


def _add_partial_sums(k: KernelBuilder, n: int, parts: int, epilogue: FusedEpilogue) -> None:
    """Add the sums of the parts and apply the epilogue. Work items are columns."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.input_dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.output_dtypes)]
    sums = k.shared.as_type("float32")

    def body(i: Int64, mask: Mask) -> None:
        at = k.first + i
        total = sums.load(at, k.lanes, mask)
        for part in range(1, parts):
            total = total + sums.load(at + part * n, k.lanes, mask)
        epilogue.store(k, inputs, outputs, total, at, at, mask)

    k.for_each_vector(k.last - k.first, body)


def gemv(depth: int, n: int, epilogue: FusedEpilogue, where: tuple[int, int]) -> TaskList:
    """Return the tasks of a row [depth] times a matrix [depth, n]."""
    parts = min(_MAX_PARTS, max(depth // 16, 1))
    rows, sums = kernel_code(_sum_rows, depth, n, parts, where), kernel_code(_add_partial_sums, n, parts, epilogue)
    grain = parts if depth * n <= _SERIAL_ELEMENTS else 1
    shared_bytes = 4 * parts * n
    return TaskList(
        lambda i, o: [
            ParallelTask(rows.address, (*i, *o), parts, grain, 0, shared_bytes),
            ParallelTask(sums.address, (*i, *o), n, n if n <= 4096 else 2048, 0, shared_bytes),
        ]
    )
