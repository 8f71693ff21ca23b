"""Cases of the ops that move elements, look them up, or multiply matrices."""

from itertools import product
from math import inf

import numpy as np

from prototorch.ops.facts import ValueLimits
from tests.ops.op_case import case, integers, normal

for shape, wanted in [
    ((), (1, 1)),
    ((6,), (2, 3)),
    ((2, 3, 4), (4, -1)),
    ((0, 3), (3, 0)),
    ((2, 0), (0, 5)),
    ((1,), ()),
]:
    case(
        "reshape",
        normal(*shape),
        attrs={"shape": wanted},
        oracle=lambda x, shape: np.array(list(x.flat)).reshape(shape),
    )


def moved(x, order):
    out = np.empty([x.shape[i] for i in order], x.dtype)
    for place in np.ndindex(*x.shape):
        out[tuple(place[i] for i in order)] = x[place]
    return out


for shape, order in [((), ()), ((3,), (0,)), ((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((0, 2, 1), (1, 2, 0))]:
    case("transpose", normal(*shape), attrs={"order": order}, oracle=moved)


def joined(*arrays, axis):
    return np.stack([row for a in arrays for row in np.moveaxis(a, axis, 0)], axis=axis)


for shapes, axis in [
    ([(2,), (1,), (3,)], 0),
    ([(2, 3), (2, 1)], -1),
    ([(2, 0), (2, 3)], 1),
    ([(1, 2, 2)], 1),
    ([(3, 2), (1, 2)], -2),
]:
    case("concat", *(normal(*s, seed=i) for i, s in enumerate(shapes)), attrs={"axis": axis}, oracle=joined)


def sliced(x, start, stop, step):
    for axis, span in enumerate(zip(start, stop, step, strict=True)):
        x = np.take(x, list(range(*span)), axis=axis)
    return x


def spread(x, shape, start, stop, step):
    out = np.zeros(shape)
    for place in np.ndindex(*x.shape):
        out[tuple(a + p * s for a, p, s in zip(start, place, step, strict=True))] = x[place]
    return out


for shape, start, stop, step in [
    ((5,), (1,), (4,), (1,)),
    ((5, 4), (0, 1), (5, 4), (2, 3)),
    ((3, 2), (1, 0), (1, 2), (1, 1)),
    ((2, 1, 3), (0, 0, 2), (2, 1, 3), (1, 1, 1)),
    ((7,), (2,), (7,), (4,)),
]:
    x, attrs = normal(*shape), {"start": start, "stop": stop, "step": step}
    case("slice", x, attrs=attrs, oracle=sliced)
    case("slice_grad", sliced(x, **attrs), attrs={"shape": shape, **attrs}, oracle=spread)

for mode in ("constant", "reflect", "edge", "wrap"):
    for shape, pads in [
        ((4,), ((2, 1),)),
        ((3, 4), ((0, 0), (3, 2))),
        ((2, 3), ((1, 0), (0, 2))),
        ((1, 1, 5), ((0, 0), (0, 0), (4, 4))),
    ]:
        case(
            "pad",
            normal(*shape),
            attrs={"pads": pads, "mode": mode},
            oracle=lambda x, pads, mode: np.pad(x, pads, mode),
        )
case("pad", normal(3), attrs={"pads": ((7, 8),), "mode": "wrap"}, oracle=lambda x, pads, mode: np.pad(x, pads, mode))
case("pad", normal(2, 2), attrs={"pads": ((1, 0), (0, 1)), "value": 2.5},
     oracle=lambda x, pads, value: np.pad(x, pads, constant_values=value))  # fmt: skip
case("pad", normal(0, 2), attrs={"pads": ((1, 1), (0, 1))}, oracle=lambda x, pads: np.pad(x, pads))
case(
    "pad",
    integers(3, below=5),
    attrs={"pads": ((1, 0),), "value": 7},
    oracle=lambda x, pads, value: np.pad(x, pads, constant_values=value),
)


def turned(x, axis):
    for a in axis if isinstance(axis, tuple) else (axis,):
        x = np.take(x, list(range(x.shape[a]))[::-1], axis=a)
    return x


for shape, axis in [((3,), 0), ((2, 3), -1), ((2, 3, 4), (0, 2)), ((0, 2), 0), ((1, 1), (0, 1))]:
    case("flip", normal(*shape), attrs={"axis": axis}, oracle=turned)


def multiplied(a, b, transpose_a=False, transpose_b=False):
    a, b = (np.swapaxes(a, -1, -2) if transpose_a else a), (np.swapaxes(b, -1, -2) if transpose_b else b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    out = np.zeros((*lead, a.shape[-2], b.shape[-1]))
    for place in np.ndindex(*out.shape):
        rest, (i, j) = place[:-2], place[-2:]
        out[place] = sum(a[(*rest, i, k)] * b[(*rest, k, j)] for k in range(a.shape[-1]))
    return out


for a, b in [
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((2, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((5, 2, 3), (3, 1)),
]:
    for ta, tb in product((False, True), repeat=2):
        one = normal(*(np.swapaxes(np.empty(a), -1, -2).shape if ta else a))
        two = normal(*(np.swapaxes(np.empty(b), -1, -2).shape if tb else b), seed=1)
        case("matmul", one, two, attrs={"transpose_a": ta, "transpose_b": tb}, oracle=multiplied)


def rows_of(table, indices):
    out = np.empty((*indices.shape, *table.shape[1:]))
    for place in np.ndindex(*indices.shape):
        out[place] = table[indices[place]]
    return out


def rows_put(values, indices, rows):
    out = np.zeros((rows, *values.shape[indices.ndim :]))
    for place in np.ndindex(*indices.shape):
        out[indices[place]] += values[place]
    return out


for table, at in [((4, 3), (5,)), ((4,), (2, 3)), ((2, 1, 2), ()), ((3, 2), (0,)), ((1, 2), (4, 1))]:
    indices = integers(*at, below=table[0], dtype="int32")
    case("take", normal(*table), indices, oracle=rows_of)
    case("embedding_grad", normal(*at, *table[1:]), indices, attrs={"rows": table[0]}, oracle=rows_put)


def picked(x, indices):
    out = np.empty(indices.shape)
    for place in np.ndindex(*indices.shape):
        out[place] = x[(*place[:-1], indices[place])]
    return out


def put(values, indices, size):
    out = np.zeros((*values.shape[:-1], size))
    for place in np.ndindex(*indices.shape):
        out[(*place[:-1], indices[place])] += values[place]
    return out


for shape, k in [((4,), 2), ((3, 5), 7), ((2, 1, 3), 1), ((0, 3), 2), ((2, 3), 0)]:
    indices = integers(*shape[:-1], k, below=shape[-1], dtype="int32")
    case("take_along_axis", normal(*shape), indices, oracle=picked)
    case("scatter_add_along_axis", normal(*shape[:-1], k), indices, attrs={"size": shape[-1]}, oracle=put)


def part(x, top, left, height, width):
    out = np.zeros((*x.shape[:2], height, width))
    for n, c, i, j in np.ndindex(*out.shape):
        row = min(max(top[n, 0, 0, 0], 0), x.shape[2] - height) + i
        out[n, c, i, j] = x[n, c, row, min(max(left[n, 0, 0, 0], 0), x.shape[3] - width) + j]
    return out


for shape, height, width in [((3, 2, 5, 6), 3, 4), ((2, 1, 3, 3), 3, 1), ((1, 2, 2, 4), 1, 4)]:
    places = [np.array([[[[k % 5 - 1]]] for k in range(first, first + shape[0])], np.int32) for first in (0, 2)]
    case("crop", normal(*shape), *places, attrs={"height": height, "width": width}, oracle=part)


def hot(indices, classes, dtype="float32"):
    out = np.zeros((*indices.shape, classes), dtype)
    for place in np.ndindex(*indices.shape):
        if 0 <= indices[place] < classes:
            out[(*place, indices[place])] = 1
    return out


for shape in [(), (3,), (2, 3), (0,), (1, 1)]:
    case("one_hot", integers(*shape, below=6) - 1, attrs={"classes": 4}, oracle=hot)
case("one_hot", integers(3, below=4, dtype="uint8"), attrs={"classes": 300, "dtype": "float64"}, oracle=hot)


def taken(x, indices, axis):
    return np.stack([np.moveaxis(x, axis, 0)[i] for i in indices], axis=axis)


def scattered(x, indices, axis, size):
    out = np.zeros((size, *np.moveaxis(x, axis, 0).shape[1:]))
    for row, i in zip(np.moveaxis(x, axis, 0), indices, strict=True):
        out[i] += row
    return np.moveaxis(out, 0, axis)


for shape, indices, axis in [
    ((4,), (3, 0, 0), 0),
    ((2, 3), (1,), -1),
    ((2, 3, 2), (2, 1, 0, 2), 1),
    ((0, 2), (1, 1), 1),
    ((1, 1), (0,), 0),
]:
    case("static_gather", normal(*shape), attrs={"indices": indices, "axis": axis}, oracle=taken)
    attrs = {"indices": indices, "axis": axis, "size": shape[axis]}
    case("static_scatter_add", taken(normal(*shape), indices, axis), attrs=attrs, oracle=scattered)

for size, dtype in [(0, "int32"), (1, "int32"), (5, "int64"), (3, "float32")]:
    case("iota", attrs={"size": size, "dtype": dtype}, oracle=lambda size, dtype: np.array(range(size), dtype))


def largest(x, k):
    values, places = np.empty((*x.shape[:-1], k)), np.empty((*x.shape[:-1], k), "int32")
    for row in np.ndindex(*x.shape[:-1]):
        order = sorted(range(x.shape[-1]), key=lambda i: (-float(x[row][i]), i))[:k]
        values[row], places[row] = x[row][order], order
    return values, places


for shape, k in [((4,), 1), ((3, 5), 5), ((2, 1, 3), 2), ((0, 3), 2), ((2, 1), 1)]:
    case("top_k", normal(*shape), attrs={"k": k}, oracle=largest)
case("top_k", np.array([1.0, 3.0, 3.0, 2.0]), attrs={"k": 3}, oracle=largest, gradient=False)
for elements in (np.array([0, 5, 3, 255], np.uint8), np.array([5, -128, 3], np.int8), np.array([False, True, True])):
    case("top_k", elements, attrs={"k": 2}, oracle=largest, gradient=False)


def _updated(x, y, steps):
    out = x.copy()
    out.T[1:3] = y
    return out


_STEPS = (("transpose", (("order", (1, 0)),)), ("slice", (("start", (1, 0)), ("stop", (3, 2)), ("step", (1, 1)))))
case("view_update", normal(2, 4), normal(2, 2, seed=1), oracle=_updated, attrs={"steps": _STEPS})


def wrapped(indices, size, message, low=0, wraps=False):
    return np.array([i + size if wraps and i < 0 else i for i in indices.reshape(-1)]).reshape(indices.shape)


def number_outside(*arrays, bounds):
    def is_outside(x, limits):
        low, high = (default if limit is None else limit for limit, default in zip(limits, (-inf, inf), strict=False))
        return not low <= x <= high or (limits.excludes_zero and x == 0)

    each = zip(arrays, bounds, strict=True)
    return np.int32(sum(is_outside(x, limits) for array, limits in each for x in array.reshape(-1).tolist()))


for shape in [(), (3,), (2, 1)]:
    words = {"size": 4, "message": "{}"}
    case("bounded_index", integers(*shape, below=4), attrs=words, oracle=wrapped)
    case("bounded_index", integers(*shape, below=8) - 4, attrs={**words, "low": -4, "wraps": True}, oracle=wrapped)
    case("count_outside", integers(*shape, below=9) - 3, attrs={"bounds": (ValueLimits(0, 3),)}, oracle=number_outside)
    limits = {"message": "{}", "low": 0.0, "high": 1.0}
    case("bounded_values", normal(*shape), attrs=limits, oracle=lambda x, **_: x)
case(
    "count_outside",
    integers(20, below=9, dtype="int32"),
    integers(2, 3, below=9, dtype="uint8"),
    attrs={"bounds": (ValueLimits(1, 6), ValueLimits(None, 3, excludes_zero=True))},
    oracle=number_outside,
)
