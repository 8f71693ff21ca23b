"""A part of each picture, at a place of its own: row by row, in whatever type the pictures came."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import SIZES, Kernel
from prototorch.backends.cpu.native.kernels.slices import PIECE, WORDS, copied_lanes
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec


class Part(NamedTuple):
    """[samples, groups, rows, columns, inner] -> [samples, groups, height, width, inner] in memory: channels are groups
    or, where they lie last, what is inner."""

    groups: int
    rows: int
    columns: int
    inner: int
    height: int
    width: int
    dtype: str


def _crop(k: Kernel, p: Part) -> None:
    """Arguments: pictures, first rows, first columns, the result. An item is one row of one group."""
    lanes = copied_lanes(p.dtype)
    tops, lefts = k.pointer(1, "int32"), k.pointer(2, "int32")
    with k.range(k.first, k.last) as item:
        row, group = item % p.height, item // p.height
        sample = group // p.groups if p.groups > 1 else group
        top = tops.load(sample).int().maximum(0).minimum(p.rows - p.height)
        left = lefts.load(sample).int().maximum(0).minimum(p.columns - p.width)
        x = k.pointer(0, p.dtype) + ((group * p.rows + top + row) * p.columns + left) * p.inner
        y = k.pointer(3, p.dtype) + item * (p.width * p.inner)
        k.vectors(p.width * p.inner, lambda i, mask: y.store(x.load(i, lanes, mask), i, mask), lanes)


@native("crop")
def crop(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Rows of the pictures, copied as words of their size."""
    x, y = ins[0], outs[0]
    if x.layout != y.layout or SIZES.get(x.dtype) not in WORDS:
        return None
    samples, channels, rows, columns = x.shape
    groups, inner = (1, channels) if x.layout else (channels, 1)
    part = Part(groups, rows, columns, inner, attrs["height"], attrs["width"], WORDS[SIZES[x.dtype]])
    made, items = code(_crop, part), samples * groups * part.height
    grain = items if y.size <= PIECE else max(PIECE // (part.width * inner), 1)
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), items, grain)])


channels_last("native", "follows", "crop")
