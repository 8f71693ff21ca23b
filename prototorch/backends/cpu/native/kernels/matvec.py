"""One row times a matrix, as in a prediction for one sample: bound by reading the matrix, which is read in its order.

Each piece of work takes some rows of the matrix and adds them up, weighted, into sums of its own; a second task adds
the pieces' sums in order, and does what follows the product.
"""

from __future__ import annotations

from prototorch.backends.cpu.native.call import Tasks, code
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue
from prototorch.backends.cpu.native.kernels.memory import clear
from prototorch.backends.cpu.native.team import Task

_PARTS = 16
_TOGETHER = 4  # rows that are added at once
_SERIAL = 1 << 15  # elements of a matrix that one thread reads as fast


def _rows(k: Kernel, depth: int, n: int, parts: int, where: tuple[int, int]) -> None:
    """The weighted sum of a part of the rows; items are parts."""
    x, b = k.pointer(where[0]), k.pointer(where[1])
    with k.range(k.first, k.last) as part:
        sums = k.shared.as_type("float32") + part * n
        first, last = part * depth // parts, (part + 1) * depth // parts
        clear(k, sums, n)

        def add(row: Int, count: int) -> None:
            weights = [x.load(row + r).splat(k.lanes) for r in range(count)]

            def body(i: Int, mask: Num | None) -> None:
                made = sums.load(i, k.lanes, mask)
                for r in range(count):
                    made = k.fma(weights[r], b.load((row + r) * n + i, k.lanes, mask), made)
                sums.store(made, i, mask)

            k.vectors(n, body)

        whole = last - (last - first) % _TOGETHER
        with k.range(first, whole, _TOGETHER) as row:
            add(row, _TOGETHER)
        with k.range(whole, last) as row:
            add(row, 1)


def _sums(k: Kernel, n: int, parts: int, epilogue: Epilogue) -> None:
    """The parts' sums added up, and what follows; items are elements of the row."""
    inputs = [k.pointer(i, d) for i, d in enumerate(epilogue.dtypes)]
    outputs = [k.pointer(len(inputs) + i, d) for i, d in enumerate(epilogue.results)]
    sums = k.shared.as_type("float32")

    def body(i: Int, mask: Num | None) -> None:
        at = k.first + i
        total = sums.load(at, k.lanes, mask)
        for part in range(1, parts):
            total = total + sums.load(at + part * n, k.lanes, mask)
        epilogue.store(k, inputs, outputs, total, at, at, mask)

    k.vectors(k.last - k.first, body)


def matvec(depth: int, n: int, epilogue: Epilogue, where: tuple[int, int]) -> Tasks:
    """The tasks for a row [depth] times a matrix [depth, n]."""
    parts = min(_PARTS, max(depth // 16, 1))
    rows, sums = code(_rows, depth, n, parts, where), code(_sums, n, parts, epilogue)
    grain = parts if depth * n <= _SERIAL else 1
    shared = 4 * parts * n
    return Tasks(lambda i, o: [
        Task(rows.address, (*i, *o), parts, grain, 0, shared),
        Task(sums.address, (*i, *o), n, n if n <= 4096 else 2048, 0, shared),
    ])  # fmt: skip
