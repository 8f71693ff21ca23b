"""What the kernels of recurrent nets share: the walk, weights packed for it, rows in tiles, gates and their slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from prototorch.backends.cpu.native import exp_log
from prototorch.backends.cpu.native.array_tracer import trace_reference
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernels.common.register_tile import (
    DepthLoop,
    RegisterTile,
    accumulate,
    max_tile_rows,
)
from prototorch.backends.cpu.native.kernels.gemm.gemm_microkernel import transpose_into
from prototorch.backends.cpu.native.kernels.move.strided_copy import StridedAxis, strided_copy
from prototorch.ops.core import Op
from prototorch.ops.recurrent import GATE_ACTIVATIONS
from prototorch.spec import Spec

#: rows of a piece, at most
_MAX_PIECE_ROWS = 64


class RowTiling(NamedTuple):
    """Rows in groups of ``many``, in tiles of ``height`` rows, each of ``vectors`` vectors."""

    total: int
    group_rows: int
    tile_rows: int
    vectors: int

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return -(-self.total // self.group_rows)


def tile_rows(count: int, vectors: int) -> RowTiling:
    """Rows cut into groups and tiles, evenly where that is possible."""
    groups = -(-count // _MAX_PIECE_ROWS)
    many = -(-count // groups)
    most = min(max_tile_rows(vectors), many)
    even = (h for h in range(most, max(most // 2, 1) - 1, -1) if many % h == 0)
    return RowTiling(count, many, next(even, most), vectors)


class SequenceShape(NamedTuple):
    """``n`` samples, ``t`` steps, the units, the gates of a unit, and the activations of the new content and of the
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
        """The samples of a step."""
        return tile_rows(self.n, self.gates)

    @property
    def packed_elements(self) -> int:
        """Numbers of the packed weights."""
        return unit_blocks(self.units) * self.units * self.gates * vector_lanes("float32")

    def time_of(self, place: int) -> int:
        """The time of a step, by its place in the walk."""
        return self.t - 1 - place if self.is_reversed else place

    def row_stride(self, gates: int) -> int:
        """Numbers between samples in an array of all steps."""
        return self.t * gates * self.units


def sequence_shape(ins: tuple[Spec, ...], attrs: dict[str, Any], gates: int) -> SequenceShape | None:
    """The walk that the specs say; None where it is not one of float32 with activations known here."""
    n, t, wide = ins[0].shape
    activation, gate = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
    if any(s.dtype not in ("float32", "bool") for s in ins) or {activation, gate} - ACTIVATIONS.keys():
        return None
    return SequenceShape(
        n, t, wide // gates, gates, bool(attrs.get("masked")), bool(attrs.get("reverse")), activation, gate
    )


#: multiplications of a task below which one thread is enough
SERIAL_WORK = 1 << 17


def grain_size(items: int, work: int) -> int:
    """Items of a piece: all of them where there is little to do."""
    return items if work <= SERIAL_WORK else 1


def shift_states(p: SequenceShape) -> Any:
    """A function from the first h, those after each step and a place to tasks that put those before each step there, by
    time."""
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
    """Blocks of units as wide as some vectors."""
    return -(-units // (vectors * vector_lanes("float32")))


def multiply_rows(k: KernelBuilder, rows: RowTiling, group: Any, x: Pointer, step: int, w: Pointer, depth: int,
             use: Callable[[Int64, Callable[[int], Num]], None]) -> None:  # fmt: skip
    """For each row of a group ``use(row, sums)``, where ``sums(v)`` is vector v of the row's product with packed w.

    x's rows are ``step`` apart. The sums of a tile wait in the thread's scratch memory.
    """
    lanes, vectors = k.lanes, rows.vectors
    first = group * rows.group_rows
    count: Any = rows.group_rows if rows.total % rows.group_rows == 0 else (rows.total - first).minimum(rows.group_rows)

    def tile(r: Any, height: int) -> None:
        made = accumulate(
            k, RegisterTile(height, vectors, lanes), x + r * step, step, w, [DepthLoop(depth, 1, vectors * lanes)]
        )
        for i, line in enumerate(made):
            for v, value in enumerate(line):
                k.local.store(value, (i * vectors + v) * lanes)
        with k.range(height) as row:
            use(r + row, lambda v: k.local.load(row * (vectors * lanes) + v * lanes, lanes))

    end = first + count
    whole: Any = first + (count - count % rows.tile_rows)
    with k.range(first, whole, rows.tile_rows) as r:
        tile(r, rows.tile_rows)
    if not isinstance(count, int) or count % rows.tile_rows:
        with k.range(whole, end) as r:
            tile(r, 1)


def scratch_bytes(rows: RowTiling) -> int:
    """Bytes of a thread's scratch memory for `multiply_rows`."""
    return 4 * rows.tile_rows * rows.vectors * vector_lanes("float32")


def pack_weights(k: KernelBuilder, units: int, gates: int, offset: int | None, width: int = 0) -> None:
    """Recurrent weights [units, gates * units], rows ``width`` apart where that is more, as blocks
    [units][gates][lanes], from ``offset`` of shared memory on; without one at the next argument."""
    u, to = k.pointer(0), k.pointer(1) if offset is None else k.shared + offset
    with k.range(k.first, k.last) as block, k.range(units) as row:
        for g in range(gates):
            at = (block * units + row) * (gates * k.lanes) + g * k.lanes
            here = u + (row * (width or gates * units) + g * units)
            to.store(here.load(block * k.lanes, k.lanes, unit_mask(k, block * k.lanes, units)), at)


def unit_mask(k: KernelBuilder, first: Int64, units: int, vectors: int = 1) -> Num | None:
    """Which lanes of a vector of units, in a block of some vectors, are units."""
    if units % (vectors * k.lanes) == 0:
        return None
    return k.mask((units - first).maximum(0).minimum(k.lanes), k.lanes)


def pack_transposed_weights(k: KernelBuilder, units: int, depth: int, vectors: int, offset: int, step: int = 0) -> None:
    """Weights [units, depth], rows ``step`` apart where that is more, as blocks [depth][vectors * lanes] of units, from
    ``offset`` of shared memory on."""
    u, width = k.pointer(0), vectors * k.lanes
    rest, step = units % width, step or depth
    with k.range(k.first, k.last) as block:
        to, here = k.shared + (block * (depth * width) + offset), u + block * (width * step)
        with k.if_then(block < units // width):
            transpose_into(k, here, width, depth, step, to, width)
        if rest:
            with k.if_then(block >= units // width):
                with k.range(depth) as row:
                    k.for_each_vector(width, lambda i, mask: to.store(k.zero(k.lanes), row * width + i, mask))
                transpose_into(k, here, rest, depth, step, to, width)


def _exp_parts(k: KernelBuilder, x: Num) -> tuple[Num, Num]:
    """exp(x) as 2 ** n * (1 + r): 2 ** n and r. For -87 <= x <= 87, and NaN."""
    n = k.unary_intrinsic("rint", x * 1.4426950408889634)
    r = k.fma(n, k.num(2.12194440e-4).splat(x.lanes), k.fma(n, k.num(-0.693359375).splat(x.lanes), x))
    made = k.num(1 / 720).splat(x.lanes)
    for c in (1 / 120, 1 / 24, 1 / 6, 1 / 2):
        made = k.fma(made, r, k.num(c).splat(x.lanes))
    bits = (n.cast("int32") + 127) << 23
    return Num(k, k.b.bitcast(bits.v, x.v.type), x.dtype, x.lanes), k.fma(made * r, r, r)


def _clip(k: KernelBuilder, x: Num, bound: float) -> Num:
    """x, but no further from 0 than the bound; NaN stays."""
    x = k.select(x > bound, k.num(bound), x)
    return k.select(x < -bound, k.num(-bound), x)


def sigmoid(k: KernelBuilder, x: Num) -> Num:
    """1 / (1 + exp(-x)), within 4 units in the last place down to 1e-38."""
    scale, r = _exp_parts(k, _clip(k, -x, 87.0))
    return k.num(1.0) / (k.fma(scale, r, scale) + 1.0)


def tanh(k: KernelBuilder, x: Num) -> Num:
    """t / (t + 2) with t = exp(2 x) - 1, within 7 units in the last place."""
    scale, r = _exp_parts(k, _clip(k, x, 9.5) * 2.0)
    t = k.fma(scale, r, scale - 1.0)
    return t / (t + 2.0)


def _trace_activation(name: str) -> Callable[[KernelBuilder, Num], Num]:
    """An activation by the op's own plain body."""
    return lambda k, x: trace_reference(k, cast(Op, GATE_ACTIVATIONS[name]).reference, [x], {})[0].splat(x.lanes)


def _select_positive(k: KernelBuilder, y: Num, above: float, below: Num) -> Num:
    return k.select(y > 0.0, k.num(above), below)


#: SELU's slope above 0, and its limit below, times -1
_SELU, _SELU_LIMIT = 1.0507009873554805, 1.7580993408473766
#: activations by name, and their slopes from what they give
ACTIVATIONS: dict[str, Callable[[KernelBuilder, Num], Num]] = {
    "sigmoid": sigmoid, "tanh": tanh, "linear": lambda k, x: x, "relu": lambda k, x: k.maximum(x, 0.0),
    **{name: _trace_activation(name) for name in ("hard_sigmoid", "softsign", "softplus", "elu", "selu")},
}  # fmt: skip
ACTIVATION_DERIVATIVES: dict[str, Callable[[KernelBuilder, Num], Num]] = {
    "sigmoid": lambda k, y: y * (k.num(1.0) - y), "tanh": lambda k, y: k.num(1.0) - y * y,
    "linear": lambda k, y: k.num(1.0).splat(y.lanes), "relu": lambda k, y: k.select(y > 0.0, k.num(1.0), k.num(0.0)),
    "hard_sigmoid": lambda k, y: k.select((y > 0.0) & (y < 1.0), k.num(1 / 6), k.num(0.0)),
    "softsign": lambda k, y: (k.num(1.0) - k.unary_intrinsic("fabs", y)) ** 2,
    "softplus": lambda k, y: -exp_log.expm1(k, -y),
    "elu": lambda k, y: _select_positive(k, y, 1.0, y + 1.0),
    "selu": lambda k, y: _select_positive(k, y, _SELU, y + _SELU_LIMIT),
}  # fmt: skip
