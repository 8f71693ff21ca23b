"""Crops of images, each at an offset of its own, of any dtype."""

from __future__ import annotations

from typing import NamedTuple

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import SIZES, KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.strided_copy import COPY_DTYPES, PIECE_ELEMENTS, copy_lanes
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask


class CropShape(NamedTuple):
    """[samples, groups, rows, columns, inner] -> [samples, groups, height, width, inner] in memory: channels are
    groups or, if they are last, inner."""

    groups: int
    rows: int
    columns: int
    inner: int
    height: int
    width: int
    dtype: str


def _crop(k: KernelBuilder, p: CropShape) -> None:
    """Arguments: images, first rows, first columns, the result. Work items are rows of one group."""
    lanes = copy_lanes(p.dtype)
    tops, lefts = k.pointer(1, "int32"), k.pointer(2, "int32")
    with k.range(k.first, k.last) as item:
        row, group = item % p.height, item // p.height
        sample = group // p.groups if p.groups > 1 else group
        first_row = tops.load(sample).to_int64().maximum(0).minimum(p.rows - p.height)
        first_col = lefts.load(sample).to_int64().maximum(0).minimum(p.columns - p.width)
        x = k.pointer(0, p.dtype) + ((group * p.rows + first_row + row) * p.columns + first_col) * p.inner
        y = k.pointer(3, p.dtype) + item * (p.width * p.inner)
        k.for_each_vector(p.width * p.inner, lambda i, mask: y.store(x.load(i, lanes, mask), i, mask), lanes)


@native_kernel("crop")
def crop(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Rows of the images, copied as words of their size."""
    x, y = ins[0], outs[0]
    if x.layout != y.layout or SIZES.get(x.dtype) not in COPY_DTYPES:
        return None
    samples, channels, rows, columns = x.shape
    groups, inner = (1, channels) if x.layout else (channels, 1)
    part = CropShape(groups, rows, columns, inner, attrs["height"], attrs["width"], COPY_DTYPES[SIZES[x.dtype]])
    kernel, items = kernel_code(_crop, part), samples * groups * part.height
    grain = items if y.size <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // (part.width * inner), 1)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain)])


register_channels_last("native", "follows", "crop")
