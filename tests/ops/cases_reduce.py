"""Cases of the reductions: a plain loop over the places of the result."""

import math
from itertools import product

import numpy as np

from tests.ops.op_case import away, bools, case, integers, normal, positive


def looped(function, dtype=None):
    """Reduce by calling a function on the list of elements behind each place of the result."""

    def oracle(x, axis=None, keepdims=False):
        over = range(x.ndim) if axis is None else [a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
        kept = tuple(1 if i in over else n for i, n in enumerate(x.shape))
        out = np.empty(kept, dtype or x.dtype)
        for place in product(*map(range, kept)):
            spans = [range(n) if i in over else [place[i]] for i, n in enumerate(x.shape)]
            out[place] = function([x[p].item() for p in product(*spans)])
        return out if keepdims else out.reshape([n for i, n in enumerate(x.shape) if i not in over])

    return oracle


CHOICES = [((3,), 0), ((2, 3, 4), (0, 2)), ((2, 3), None), ((0, 3), 1), ((2, 1, 3), -2), ((), None), ((4, 2), ())]
LINEAR = {"sum": math.fsum, "mean": lambda v: math.fsum(v) / len(v), "max": max, "min": min, "prod": math.prod}
for name, function in LINEAR.items():
    for shape, axis in CHOICES:
        for keepdims in (False, True):
            x = positive(*shape) if name == "prod" else normal(*shape)
            case(name, x, attrs={"axis": axis, "keepdims": keepdims}, oracle=looped(function))
for name in ("sum", "prod"):
    case(name, normal(0, 3), attrs={"axis": 0}, oracle=looped(LINEAR[name]))
    case(name, integers(2, 3, below=5, dtype="int32"), attrs={"axis": 1}, oracle=looped(LINEAR[name]))
case("max", integers(2, 3, below=5, dtype="int32"), attrs={"axis": 1}, oracle=looped(max))
# among equals the gradient is shared: one direction along which they stay equal
case("max", np.ones((2, 3)), attrs={"axis": 1}, oracle=looped(max), gradient=False)
for name, function in {"all": all, "any": any}.items():
    for shape, axis in [*CHOICES, ((0, 2), 0)]:
        case(name, bools(*shape), attrs={"axis": axis}, oracle=looped(function))

for name, function in {"argmax": lambda v: v.index(max(v)), "argmin": lambda v: v.index(min(v))}.items():
    for shape, axis in [((3,), 0), ((2, 3, 4), 1), ((0, 3), 1), ((2, 1), -1), ((1, 5), -1)]:
        case(name, normal(*shape), attrs={"axis": axis}, oracle=looped(function, "int32"), gradient=False)
    case(name, np.array([1.0, 2.0, 2.0, 1.0]), attrs={"axis": 0}, oracle=looped(function, "int32"), gradient=False)


def running(x, axis, reverse=False):
    out = np.zeros_like(x)
    for i in range(x.shape[axis]):
        span = slice(i, None) if reverse else slice(0, i + 1)
        at = (slice(None),) * (axis % x.ndim)
        out[(*at, i)] = x[(*at, span)].sum(axis=axis)
    return out


for shape, axis in [((3,), 0), ((2, 3, 4), 1), ((0, 3), 0), ((2, 1), -1), ((1, 5), -1)]:
    for reverse in (False, True):
        case("cumsum", normal(*shape), attrs={"axis": axis, "reverse": reverse}, oracle=running)


def repeated(x, shape):
    out = np.empty(shape, x.dtype)
    lead = len(shape) - x.ndim
    for place in product(*map(range, shape)):
        out[place] = x[tuple(p if n > 1 else 0 for p, n in zip(place[lead:], x.shape, strict=True))]
    return out


for shape, wanted in [((), (2,)), ((3,), (2, 3)), ((2, 1, 3), (2, 4, 3)), ((1, 3), (0, 3)), ((1,), (1, 1, 1))]:
    case("broadcast_to", normal(*shape), attrs={"shape": wanted}, oracle=repeated)
case("max", away(2, 0), attrs={"axis": 0}, oracle=looped(max))
