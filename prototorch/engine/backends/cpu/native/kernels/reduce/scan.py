"""Running sums along an axis (inclusive scans).

Along the last axis of memory a vector is scanned by shifts of 1, 2, 4 ... lanes (Hillis and Steele, 1986), and the
carry is added to all of its lanes; along another axis each lane is a scan of its own.
"""

from __future__ import annotations

from math import prod

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, MutableNum, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes

#: elements of a piece, and columns of a work item
PIECE_ELEMENTS, BLOCK_COLUMNS = 1 << 14, 256
_TYPES = ("float32", "float64", "int32", "int64")


def _scan_lanes(k: KernelBuilder, x: Num, reverse: bool) -> Num:
    """Return the running sums of a vector's lanes, from the first or from the last on."""
    zero, n, far = k.zero(x.lanes, x.dtype), x.lanes, 1
    while far < n:
        lane_order = [i + far if reverse else i - far for i in range(n)]
        x = x + k.shuffle(x, zero, [i if 0 <= i < n else n for i in lane_order])
        far *= 2
    return x


def _scan_contiguous(k: KernelBuilder, x: Pointer, y: Pointer, n: int, reverse: bool) -> None:
    lanes = vector_lanes(x.dtype)
    carry: MutableNum = k.variable(k.zero(lanes, x.dtype))

    def body(i: Int64, mask: Mask) -> None:
        total = _scan_lanes(k, x.load(i, lanes, mask), reverse) + carry.value
        y.store(total, i, mask)
        carry.value = total.extract_lane(0 if reverse else lanes - 1).splat(lanes)

    if not reverse:
        k.for_each_vector(n, body, lanes)
        return
    full_vectors, rest = n // lanes, n % lanes
    with k.range(full_vectors) as j:
        body(n - lanes - j * lanes, None)
    if rest:
        body(Int64(k, k.word(0)), k.mask(rest, lanes))


def _scan_strided(k: KernelBuilder, x: Pointer, y: Pointer, n: int, inner: int, reverse: bool, column: Int64) -> None:
    lanes = vector_lanes(x.dtype)
    num_columns: Index = (inner - column).minimum(BLOCK_COLUMNS) if inner > BLOCK_COLUMNS else inner

    def body(i: Int64, mask: Mask) -> None:
        total = k.variable(k.zero(lanes, x.dtype))
        with k.range(n) as step:
            at = ((n - 1) - step if reverse else step) * inner + i
            total.value = total.value + x.load(at, lanes, mask)
            y.store(total.value, at, mask)

    k.for_each_vector(num_columns, body, lanes)


def _scan(k: KernelBuilder, n: int, inner: int, reverse: bool, dtype: str) -> None:
    """x [outer, n, inner]; work items are outer indices and blocks of columns."""
    blocks = -(-inner // BLOCK_COLUMNS)
    with k.range(k.first, k.last) as item:
        column = item % blocks * BLOCK_COLUMNS
        at = item // blocks * (n * inner)
        x, y = (k.pointer(i, dtype) + at for i in range(2))
        if inner == 1:
            _scan_contiguous(k, x, y, n, reverse)
        else:
            _scan_strided(k, x + column, y + column, n, inner, reverse, column)


@native_kernel("cumsum")
def cumsum(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Each element plus all before it, or behind it."""
    (x,), (y,) = ins, outs
    if x.dtype not in _TYPES or x.layout != y.layout:
        return None
    (axis,) = normalize_axes(attrs["axis"], x.ndim)
    shape = memory_order(x.shape, x.layout)
    axis_position = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    n, inner = shape[axis_position], prod(shape[axis_position + 1 :])
    items = prod(shape[:axis_position]) * -(-inner // BLOCK_COLUMNS)
    kernel = kernel_code(_scan, n, inner, bool(attrs.get("reverse", False)), x.dtype)
    grain = items if x.size <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // (n * min(inner, BLOCK_COLUMNS)), 1)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain)])


register_channels_last("native", "follows", "cumsum")
