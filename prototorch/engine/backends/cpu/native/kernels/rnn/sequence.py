"""What the recurrent kernels share: the shape of a sequence, packed weights, products over tiles of rows,
activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
)
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import StridedAxis, strided_copy
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.kernels.common.vectors import unit_mask
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.engine.backends.cpu.native.kernels.rnn.activations import ACTIVATIONS

__all__ = [
    "SequenceShape",
    "grain_size",
    "multiply_rows",
    "pack_transposed_weights",
    "pack_weights",
    "scratch_bytes",
    "sequence_shape",
    "shift_states",
    "tile_rows",
    "unit_blocks",
]

#: rows of a piece, at most
_MAX_PIECE_ROWS = 64


class RowTiling(NamedTuple):
    """``total`` rows in groups of ``group_rows``, in tiles of ``tile_rows`` rows of ``vectors`` vectors."""

    total: int
    group_rows: int
    tile_rows: int
    vectors: int

    @property
    def num_groups(self) -> int:
        """The number of groups."""
        return -(-self.total // self.group_rows)


def tile_rows(count: int, vectors: int) -> RowTiling:
    """Divide rows into groups and tiles, evenly if that is possible."""
    groups = -(-count // _MAX_PIECE_ROWS)
    group_rows = -(-count // groups)
    most = min(max_tile_rows(vectors), group_rows)
    even = (h for h in range(most, max(most // 2, 1) - 1, -1) if group_rows % h == 0)
    return RowTiling(count, group_rows, next(even, most), vectors)


class SequenceShape(NamedTuple):
    """``n`` samples, ``t`` steps, the units, the gates of a unit, and the activations of the candidate and of the
    gates."""

    n: int
    t: int
    units: int
    gates: int
    is_masked: bool
    is_reversed: bool
    activation: str
    gate: str

    @property
    def row_tiling(self) -> RowTiling:
        """The tiling of the samples of a step."""
        return tile_rows(self.n, self.gates)

    @property
    def packed_elements(self) -> int:
        """Elements of the packed weights."""
        return unit_blocks(self.units) * self.units * self.gates * vector_lanes("float32")

    def time_of(self, step_index: int) -> int:
        """Return the time index of a step."""
        return self.t - 1 - step_index if self.is_reversed else step_index

    def row_stride(self, gates: int) -> int:
        """Return the elements between samples in an array of all steps."""
        return self.t * gates * self.units


def sequence_shape(ins: Specs, attrs: Attrs, gates: int) -> SequenceShape | None:
    """Return the shape of a sequence, or None for dtypes other than float32 or unknown activations."""
    n, t, gate_units = ins[0].shape
    activation, gate = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
    if any(s.dtype not in ("float32", "bool") for s in ins) or {activation, gate} - ACTIVATIONS.keys():
        return None
    return SequenceShape(
        n, t, gate_units // gates, gates, bool(attrs.get("masked")), bool(attrs.get("reverse")), activation, gate
    )


#: multiplications of a task up to which one thread is used
SERIAL_WORK = 1 << 17


def grain_size(items: int, work: int) -> int:
    """Return the work items of a piece: all of them if there is little work."""
    return items if work <= SERIAL_WORK else 1


def shift_states(p: SequenceShape) -> Any:
    """Return a function from the initial h, those after each step and a target to tasks that store the h before each
    step there, by time."""
    n, t, units = p.n, p.t, p.units
    first = strided_copy(
        [StridedAxis(n, units, t * units), StridedAxis(units, 1, 1)],
        "float32",
        0,
        (t - 1) * units if p.is_reversed else 0,
    )
    step = -units if p.is_reversed else units
    rest = strided_copy(
        [StridedAxis(n, t * units, t * units), StridedAxis(max(t - 1, 1), step, units), StridedAxis(units, 1, 1)],
        "float32",
        (t - 2) * units if p.is_reversed else 0,
        0 if p.is_reversed else units,
    )
    return lambda h0, hs, to: [first(h0, to), rest(hs, to)][: min(t, 2)]


def unit_blocks(units: int, vectors: int = 1) -> int:
    """Return the number of blocks of units, each some vectors wide."""
    return -(-units // (vectors * vector_lanes("float32")))


def multiply_rows(
    k: KernelBuilder,
    rows: RowTiling,
    group: Any,
    x: Pointer,
    step: int,
    w: Pointer,
    depth: int,
    use: Callable[[Int64, Callable[[int], Num]], None],
) -> None:
    """Emit ``use(row, sums)`` for each row of a group, where ``sums(v)`` is vector v of the row's product with packed
    w.

    The rows of x are ``step`` apart. The sums of a tile are in the thread's scratch memory.
    """
    lanes, vectors = k.lanes, rows.vectors
    first = group * rows.group_rows
    count: Any = rows.group_rows if rows.total % rows.group_rows == 0 else (rows.total - first).minimum(rows.group_rows)

    def tile(r: Any, height: int) -> None:
        tile_sums = accumulate(
            k, RegisterTile(height, vectors, lanes), x + r * step, step, w, [DepthLoop(depth, 1, vectors * lanes)]
        )
        for i, line in enumerate(tile_sums):
            for v, value in enumerate(line):
                k.local.store(value, (i * vectors + v) * lanes)
        with k.range(height) as row:
            use(r + row, lambda v: k.local.load(row * (vectors * lanes) + v * lanes, lanes))

    end = first + count
    main_end: Any = first + (count - count % rows.tile_rows)
    with k.range(first, main_end, rows.tile_rows) as r:
        tile(r, rows.tile_rows)
    if not isinstance(count, int) or count % rows.tile_rows:
        with k.range(main_end, end) as r:
            tile(r, 1)


def scratch_bytes(rows: RowTiling) -> int:
    """Return the bytes of a thread's scratch memory for `multiply_rows`."""
    return 4 * rows.tile_rows * rows.vectors * vector_lanes("float32")


def pack_weights(k: KernelBuilder, units: int, gates: int, offset: int | None, width: int = 0) -> None:
    """Pack recurrent weights [units, gates * units], rows ``width`` apart if that is more, into blocks
    [units][gates][lanes], at ``offset`` of shared memory or (None) the next argument."""
    u, to = k.pointer(0), k.pointer(1) if offset is None else k.shared + offset
    with k.range(k.first, k.last) as block, k.range(units) as row:
        for g in range(gates):
            at = (block * units + row) * (gates * k.lanes) + g * k.lanes
            source = u + (row * (width or gates * units) + g * units)
            to.store(source.load(block * k.lanes, k.lanes, unit_mask(k, block * k.lanes, units)), at)


def pack_transposed_weights(k: KernelBuilder, units: int, depth: int, vectors: int, offset: int, step: int = 0) -> None:
    """Pack weights [units, depth], rows ``step`` apart if that is more, into blocks [depth][vectors * lanes] of
    units, at ``offset`` of shared memory."""
    u, width = k.pointer(0), vectors * k.lanes
    rest, step = units % width, step or depth
    with k.range(k.first, k.last) as block:
        to, source = k.shared + (block * (depth * width) + offset), u + block * (width * step)
        with k.if_then(block < units // width):
            transpose_into(k, source, width, depth, step, to, width)
        if rest:
            with k.if_then(block >= units // width):
                with k.range(depth) as row:
                    k.for_each_vector(width, lambda i, mask: to.store(k.zero(k.lanes), row * width + i, mask))
                transpose_into(k, source, rest, depth, step, to, width)
