"""Launches of the candidate `row_per_warp`: layer norm and softmax with a warp, or a part of one, for each row.

The kernels in use take a block for each row, with nine barriers or more for each of a row's sums. These exchange sums
by shuffles and read a row once, by vectors of up to 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prototorch.cuda.kernels.launch import (
    BLOCK,
    KernelLaunch,
    c_type,
    index_scalar,
    kernel_source,
    per_block_launch,
    vector_width,
)
from prototorch.spec import Spec

__all__ = ["RowShape", "row_launch"]

#: elements of a row that a thread keeps in registers
MAX_VALUES = 32
WARP = 32


@dataclass(frozen=True)
class RowShape:
    """How a row of ``size`` elements is spread over threads.

    Attributes:
        vector: adjacent elements that a thread reads at a time.
        threads: threads of a row, a power of two of at most `BLOCK`.
        vectors: vectors of a thread.
    """

    size: int
    vector: int
    threads: int
    vectors: int

    @staticmethod
    def of(x: Spec, size: int) -> RowShape | None:
        """The shape for rows of x; None where they are longer than a block keeps (8,192 elements by vectors)."""
        vector = vector_width(x, size)
        total, threads = size // vector, 1
        while threads < min(total, WARP):
            threads *= 2
        while -(-total // threads) * vector > MAX_VALUES:
            threads *= 2
        return RowShape(size, vector, threads, -(-total // threads)) if threads <= BLOCK else None


def row_launch(text: str, name: str, x: Spec, size: int, *args: Any, **macros: str | int) -> KernelLaunch | None:
    """The launch of a kernel of ``text`` over all rows of x; args: those after the number of rows. None where rows are
    too long."""
    shape = RowShape.of(x, size)
    if shape is None or not x.is_float:
        return None
    source = kernel_source(
        text,
        x.size,
        X=c_type(x),
        N=size,
        VEC=shape.vector,
        ROW_THREADS=shape.threads,
        EACH_VECTORS=shape.vectors,
        **macros,
    )
    rows = x.size // size
    blocks = -(-rows // (BLOCK // shape.threads))
    return per_block_launch(source, name, blocks, index_scalar(rows, x.size), *args, block=BLOCK)
