"""Cases of diagonals and sliding windows."""

import numpy as np

from tests.ops.op_case import case, normal


def diagonals(x, axes, offset=0):
    first, second = (a % x.ndim for a in axes)
    rest = [a for a in range(x.ndim) if a not in (first, second)]
    out = []
    for lead in np.ndindex(*(x.shape[a] for a in rest)):
        for i in range(x.shape[first]):
            if 0 <= i + offset < x.shape[second]:
                place = dict(zip(rest, lead, strict=True)) | {first: i, second: i + offset}
                out.append(x[tuple(place[a] for a in range(x.ndim))])
    lead = [x.shape[a] for a in rest]
    size = sum(0 <= i + offset < x.shape[second] for i in range(x.shape[first]))
    return np.array(out, x.dtype).reshape(*lead, size)


for shape, axes in [((4, 4), (0, 1)), ((3, 5), (1, 0)), ((2, 3, 4), (0, 2)), ((2, 3, 1, 4), (-1, 1)), ((0, 3), (0, 1))]:
    for offset in (0, 1, -2, 9):
        case("diagonal", normal(*shape), attrs={"axes": axes, "offset": offset}, oracle=diagonals)


def windows(x, axis, size, step):
    parts = [np.take(x, range(i, i + size), axis=axis) for i in range(0, x.shape[axis] - size + 1, step)]
    return np.stack([np.moveaxis(p, axis, -1) for p in parts], axis=axis % x.ndim)


for shape, axis, size, step in [
    ((7,), 0, 3, 2),
    ((2, 6), 1, 2, 1),
    ((5, 2, 3), 0, 5, 1),
    ((2, 5, 1), -2, 2, 3),
    ((3, 0), 0, 2, 1),
    ((4,), 0, 1, 1),
]:
    case("sliding_windows", normal(*shape), attrs={"axis": axis, "size": size, "step": step}, oracle=windows)

for shape, axis, index in [((4,), 0, 2), ((2, 3), -1, 0), ((2, 3, 1, 4), 1, 2), ((0, 3), 1, 1), ((1, 1), 0, 0)]:
    case(
        "select",
        normal(*shape),
        attrs={"axis": axis, "index": index},
        oracle=lambda x, axis, index: np.moveaxis(x, axis, 0)[index],
    )


def strided(x, shape, strides, offset=0):
    out = np.empty(shape)
    for place in np.ndindex(*shape):
        out[place] = x.reshape(-1)[offset + sum(i * step for i, step in zip(place, strides, strict=True))]
    return out


STRIDED = [((6,), (2, 3), (3, 1), 0), ((3, 4), (2, 2), (1, 4), 2), ((5,), (3, 3), (1, 1), 0), ((4,), (), (), 3),
           ((3,), (0, 2), (1, 1), 0), ((1, 1), (4,), (0,), 0)]  # fmt: skip
for shape, sizes, strides, offset in STRIDED:
    attrs = {"shape": sizes, "strides": strides, "offset": offset}
    case("as_strided_view", normal(*shape), attrs=attrs, oracle=strided)
