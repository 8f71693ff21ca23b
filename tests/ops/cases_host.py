"""Functions that compute in NumPy, as ops."""

import numpy as np

from prototorch.ops.host_call import HostFunction
from prototorch.spec import Spec
from tests.ops.op_case import SHAPES, case, each, normal

for shape in SHAPES:
    cubed = HostFunction("cube", [Spec(shape, "float64")], lambda x: x**3, lambda xs, ys, gs: [3 * gs[0] * xs[0] ** 2])
    case("host_call", normal(*shape), oracle=each(lambda x, function: x**3), attrs={"function": cubed}, second=False)
product = HostFunction(
    "product and sum",
    [Spec((3, 2), "float64"), Spec((), "float64")],
    lambda a, b: (a * b, np.sum(a)),
    lambda xs, ys, gs: [gs[0] * xs[1] + gs[1], gs[0] * xs[0]],
)
case(
    "host_call",
    normal(3, 2),
    normal(3, 2, seed=1),
    oracle=lambda a, b, function: (a * b, sum(a.reshape(-1))),
    attrs={"function": product},
    second=False,
)
