"""Cases of the ops that only a plan's passes say."""

import numpy as np
from op_case import case, normal

for shape, name in [((2, 3, 4), "reorder"), ((1, 2, 3, 2), "reorder"), ((3, 1, 5), "relabel"), ((2, 4, 1), "relabel")]:
    case(name, normal(*shape), attrs={"layout": None}, oracle=lambda x, layout: x)

X, Y, A, B = ("in", 0), ("in", 1), ("node", 0, 0), ("node", 1, 0)
PROGRAM = (("multiply", (X, Y), ()), ("tanh", (A,), ()), ("leaky_relu", (B,), (("negative_slope", 0.5),)))


def by_loop(x, y, program, outputs, inplace=()):
    product = np.asarray(x * y)
    bent = np.array([v if v > 0 else 0.5 * v for v in np.tanh(product).flat]).reshape(product.shape)
    return (bent,) if len(outputs) == 1 else (bent, product)


for x, y in [((), ()), ((2, 3), (3,)), ((0, 3), (1, 3)), ((2, 1, 3), (2, 1, 3))]:
    for outputs in ((("node", 2, 0),), (("node", 2, 0), A)):
        attrs = {"program": PROGRAM, "outputs": outputs, "inplace": ((0, 0),)}
        case("fused", normal(*x), normal(*y, seed=1), attrs=attrs, oracle=by_loop)

NUMBERS = (("where", (X, ("const", 2, "int32"), ("const", 3, "int32")), ()),)
case("fused", np.array([True, False]), attrs={"program": NUMBERS, "outputs": (A,)}, gradient=False,
     oracle=lambda c, program, outputs: np.array([2 if v else 3 for v in c], "int32"))  # fmt: skip
