"""Cases of sorting, of positions in sorted elements, and of running extrema."""

import math

import numpy as np

from tests.ops.op_case import case, integers, normal


def rank(v):
    return (math.isnan(v), v)


def in_order(x, descending=False):
    values, indices = np.empty_like(x), np.empty(x.shape, "int64")
    for row in np.ndindex(*x.shape[:-1]):
        order = sorted(range(x.shape[-1]), key=lambda i: rank(x[row][i]), reverse=descending)
        if descending:  # Python keeps the order of equal elements in both directions
            assert order == sorted(order, key=lambda i: rank(x[row][i]), reverse=True)
        values[row], indices[row] = x[row][order], order
    return values, indices


for shape in [(1,), (7,), (2, 1, 3), (0, 3), (3, 0), (4, 6)]:
    for descending in (False, True):
        case("sort", normal(*shape), attrs={"descending": descending}, oracle=in_order)
for descending in (False, True):
    repeated = np.array([2.0, 1.0, np.nan, 2.0, 1.0, -np.inf, np.nan, 2.0])
    case("sort", repeated, attrs={"descending": descending}, oracle=in_order, gradient=False)
    case("sort", integers(2, 9, below=4), attrs={"descending": descending}, oracle=in_order)
    case("sort", integers(5, below=2) > 0, attrs={"descending": descending}, oracle=in_order)


def counted(elements, values, side="left"):
    out = np.empty(values.shape, "int64")
    for at in np.ndindex(*values.shape):
        row = elements if elements.ndim == 1 else elements[at[:-1]]
        v = values[at]
        out[at] = sum(math.isnan(v) or (e < v if side == "left" else e <= v) for e in row)
    return out


SEARCHES = [((6,), (2, 3)), ((6,), ()), ((2, 5), (2, 4)), ((2, 1, 3), (2, 1, 0)), ((0,), (3,)), ((0, 4), (0, 2))]
for rows, wanted in SEARCHES:
    for side in ("left", "right"):
        elements, values = np.sort(np.round(normal(*rows) * 2), axis=-1), np.round(normal(*wanted, seed=1) * 2)
        case("searchsorted", elements, values, attrs={"side": side}, oracle=counted, gradient=False)
case("searchsorted", np.array([1.0, 2.0]), np.array([np.nan, np.inf, 0.0]), oracle=counted, gradient=False)
for side in ("left", "right"):
    elements, values = np.array([1.0, 2.0, np.nan, np.nan]), np.array([np.nan, np.inf, 1.5])
    case("searchsorted", elements, values, attrs={"side": side}, oracle=np.searchsorted, gradient=False)
case("searchsorted", np.array([1, 2, 2, 5]), np.array([2, 9, -1]), attrs={"side": "right"}, oracle=counted)


def running(better):
    def oracle(x):
        values, indices = np.empty_like(x), np.empty(x.shape, "int64")
        for row in np.ndindex(*x.shape[:-1]):
            best = 0
            for i, v in enumerate(x[row]):
                if v != v or (x[row][best] == x[row][best] and better(v, x[row][best])):
                    best = i
                values[(*row, i)], indices[(*row, i)] = x[row][best], best
        return values, indices

    return oracle


for name, better in [("cummax", lambda a, b: a >= b), ("cummin", lambda a, b: a <= b)]:
    for shape in [(1,), (7,), (2, 1, 3), (0, 3), (3, 0), (3, 6)]:
        case(name, normal(*shape), oracle=running(better))
    case(name, np.array([1.0, 3.0, 3.0, np.nan, 5.0, np.nan, -np.inf]), oracle=running(better), gradient=False)
    case(name, integers(2, 9, below=4), oracle=running(better))
    case(name, integers(6, below=2) > 0, oracle=running(better))
