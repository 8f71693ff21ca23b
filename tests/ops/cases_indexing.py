"""Cases of indexing by several arrays, and of writing at such indices."""

import numpy as np

from tests.ops.op_case import case, integers, normal

#: shape of x, shapes of the indices, axes
PLACES = [
    ((4,), [(3,)], (0,)),
    ((3, 5), [(2, 2)], (1,)),
    ((3, 4, 2), [(3, 1), (2,)], (0, 1)),
    ((3, 2, 4), [(3,), (3,)], (0, 2)),
    ((2, 3, 1, 4), [(2,), ()], (1, 2)),
    ((2, 3, 4), [(), ()], (0, 2)),
    ((2, 3), [(0,)], (1,)),
    ((0, 3), [(2,)], (1,)),
]


def places(x, indices, axes):
    """Each position of the result with the position of x it stands for."""
    wide = np.broadcast_arrays(*indices)
    lead = wide[0].shape
    rest = [a for a in range(x.ndim) if a not in axes]
    at = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    for i in np.ndindex(*lead):
        for j in np.ndindex(*(x.shape[a] for a in rest)):
            position = dict(zip(rest, j, strict=True)) | {a: int(w[i]) for a, w in zip(axes, wide, strict=True)}
            yield (*j[:at], *i, *j[at:]), tuple(position[a] for a in range(x.ndim))


def shape_of(x, indices, axes):
    lead = np.broadcast_shapes(*(i.shape for i in indices))
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    at = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    return (*rest[:at], *lead, *rest[at:])


def read(x, *indices, axes):
    out = np.empty(shape_of(x, indices, axes), x.dtype)
    for to, at in places(x, indices, axes):
        inside = all(0 <= i < n for i, n in zip(at, x.shape, strict=True))
        out[to] = x[at] if inside else np.nan if x.dtype.kind == "f" else 0
    return out


JOIN = {"set": lambda a, b: b, "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "amax": max, "amin": min}


def written(x, values, *indices, axes, reduce="set"):
    out = x.copy()
    for source, at in places(x, indices, axes):
        if all(0 <= i < n for i, n in zip(at, x.shape, strict=True)):
            out[at] = JOIN[reduce](out[at], values[source])
    return out


def distinct(indices, shape, axes):
    """Indices without repetition, where a value that is replaced has a gradient by definition."""
    wide = np.broadcast_arrays(*indices)
    rows = list(zip(*(w.reshape(-1).tolist() for w in wide), strict=True))
    return len(set(rows)) == len(rows)


for shape, index_shapes, axes in PLACES:
    x = normal(*shape)
    indices = [
        integers(*s, below=shape[a], seed=k, dtype="int32" if k else "int64")
        for k, (s, a) in enumerate(zip(index_shapes, axes, strict=True))
    ]
    case("advanced_index", x, *indices, attrs={"axes": axes}, oracle=read)
    values = normal(*shape_of(x, indices, axes), seed=5)
    for reduce in JOIN:
        once = reduce != "set" or distinct(indices, shape, axes)
        case(
            "index_put",
            x,
            values,
            *indices,
            attrs={"axes": axes, "reduce": reduce},
            oracle=written,
            gradient=once,
            second=once,
        )

outside = np.array([0, -1, 2, 3, -4])
case("advanced_index", normal(3, 2), outside, attrs={"axes": (0,)}, oracle=read, gradient=False)
case("advanced_index", integers(2, 3, below=9), outside, attrs={"axes": (1,)}, oracle=read)
case(
    "index_put",
    normal(2, 3),
    normal(2, 5),
    outside,
    attrs={"axes": (1,), "reduce": "sum"},
    oracle=written,
    gradient=False,
)
case("index_put", normal(2, 3), normal(2, 5), outside, attrs={"axes": (1,)}, oracle=written, gradient=False)
case(
    "index_put",
    integers(4, below=9) > 4,
    integers(3, below=2) > 0,
    np.array([1, 1, 3]),
    attrs={"axes": (0,), "reduce": "amax"},
    oracle=written,
)
factors = np.array([2.0, 0.0, 0.0, 3.0, 0.0])
case(
    "index_put",
    np.array([1.5, 0.0, 2.0]),
    factors,
    np.array([0, 0, 1, 2, 2]),
    attrs={"axes": (0,), "reduce": "prod"},
    oracle=written,
    second=False,
)
