"""Cases of the scans: a plain loop, or NumPy's accumulate."""

import numpy as np

from tests.ops.op_case import away, case, integers, normal

CHOICES = [((3,), 0), ((2, 3, 4), 1), ((0, 3), 0), ((2, 1), -1), ((1, 5), -1)]


def recurrence(a, b, axis, reverse=False):
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    y, total = np.zeros_like(b), np.zeros_like(b[:1].sum(0))
    for i in reversed(range(len(b))) if reverse else range(len(b)):
        total = a[i] * total + b[i]
        y[i] = total
    return np.moveaxis(y, 0, axis)


for shape, axis in CHOICES:
    for reverse in (False, True):
        case(
            "linear_recurrence",
            normal(*shape),
            normal(*shape, seed=1),
            attrs={"axis": axis, "reverse": reverse},
            oracle=recurrence,
        )
    case("cumprod", away(*shape), attrs={"axis": axis}, oracle=lambda x, axis: np.multiply.accumulate(x, axis=axis))
    case(
        "logcumsumexp",
        normal(*shape) * 5,
        attrs={"axis": axis},
        oracle=lambda x, axis: np.logaddexp.accumulate(x, axis=axis),
    )
case("cumprod", np.array([2.0, 0.0, 3.0, 0.0, 5.0]), attrs={"axis": 0}, oracle=lambda x, axis: np.cumprod(x))
case("cumprod", integers(5, below=4), attrs={"axis": 0}, oracle=lambda x, axis: np.cumprod(x))
case(
    "logcumsumexp",
    np.array([-np.inf, -np.inf, 1.0, 800.0, 2.0]),
    attrs={"axis": 0},
    gradient=False,
    oracle=lambda x, axis: np.logaddexp.accumulate(x),
)
