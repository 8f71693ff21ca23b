"""Cases of the elementwise ops: each element by Python's own arithmetic."""

import math
import operator

import numpy as np

from tests.ops.op_case import SHAPES, away, bools, case, each, integers, normal, positive

PAIRS = [((), ()), ((3,), ()), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((2, 3), (2, 3))]

UNARY = {
    "negative": (operator.neg, normal),
    "exp": (math.exp, normal),
    "expm1": (math.expm1, normal),
    "log": (math.log, positive),
    "log1p": (math.log1p, positive),
    "sqrt": (math.sqrt, positive),
    "rsqrt": (lambda v: 1 / math.sqrt(v), positive),
    "square": (lambda v: v * v, normal),
    "abs": (abs, away),
    "tanh": (math.tanh, normal),
    "sin": (math.sin, normal),
    "cos": (math.cos, normal),
    "erf": (math.erf, normal),
    "stop_gradient": (lambda v: v, normal),
}
for name, (function, fill) in UNARY.items():
    for shape in SHAPES:
        case(name, fill(*shape), oracle=each(function), constant=(0,) if name == "stop_gradient" else ())
case("erf", np.linspace(-7, 7, 501), oracle=each(math.erf), tolerance=4e-16, tolerance32=2e-7)

for name, function in {
    "sign": lambda v: (v > 0) - (v < 0),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}.items():
    for shape in SHAPES:
        case(name, away(*shape, kinks=np.arange(-8, 8.5, 0.5)), oracle=each(function), zero=(0,))
case("round", np.array([-1.5, -0.5, 0.5, 1.5, 2.5]), oracle=each(round), gradient=False)
for name, function in {"negative": operator.neg, "square": lambda v: v * v, "abs": abs}.items():
    case(name, integers(5, below=9, dtype="int32") - 4, oracle=each(function))
strange = np.array([0.0, np.inf, -np.inf, np.nan, 1.0])
case("is_finite", strange, oracle=each(math.isfinite, "bool"), gradient=False)
case("is_finite", normal(0, 2), oracle=each(math.isfinite, "bool"), gradient=False)
case("logical_not", bools(3, 2), oracle=each(operator.not_, "bool"))

BINARY = {
    "add": (operator.add, normal, normal),
    "subtract": (operator.sub, normal, normal),
    "multiply": (operator.mul, normal, normal),
    "divide": (operator.truediv, normal, positive),
    "power": (operator.pow, positive, normal),
    "maximum": (max, normal, away),
    "minimum": (min, normal, away),
}
for name, (function, one, two) in BINARY.items():
    for a, b in PAIRS:
        case(name, one(*a, seed=1), two(*b, seed=2), oracle=each(function))
for name in ("add", "subtract", "multiply", "maximum", "minimum"):
    case(name, integers(4, below=9), integers(3, 1, below=9), oracle=each(BINARY[name][0]))
# the gradient by a base that is not positive, with a whole exponent; the exponent's is 0 there
case("power", np.array([-1.5, 2.0, -0.5]), np.array(2.0), oracle=each(operator.pow), gradient=False)
for name, function in {"floor_divide": operator.floordiv, "remainder": operator.mod}.items():
    for a, b in PAIRS:
        case(name, normal(*a, seed=1) * 3, positive(*b, seed=2), oracle=each(function), gradient=False)
    case(name, integers(6, below=20) - 10, np.array(3), oracle=each(function))
    case(name, integers(6, below=20) - 10, np.array(-3), oracle=each(function))

COMPARED = {"less": operator.lt, "less_equal": operator.le, "equal": operator.eq, "not_equal": operator.ne}
for name, function in COMPARED.items():
    for a, b in PAIRS:
        pair = integers(*a, below=3).astype(float), integers(*b, below=3).astype(float)
        case(name, *pair, oracle=each(function, "bool"), gradient=False)
for name, function in {"logical_and": lambda a, b: a and b, "logical_or": lambda a, b: a or b}.items():
    for a, b in PAIRS:
        case(name, bools(*a, seed=1), bools(*b, seed=2), oracle=each(function, "bool"))
for c, a, b in [((), (2,), (3, 1)), ((3, 1), (1, 2), ()), ((0,), (1,), (1,)), ((2, 2), (2, 2), (2, 2)), ((5,), (), ())]:
    case("where", bools(*c), normal(*a), normal(*b, seed=1), oracle=each(lambda c, a, b: a if c else b))
for shape in SHAPES:
    case(
        "full", attrs={"shape": shape, "value": 2.5, "dtype": "float64"}, oracle=lambda shape, **a: np.full(shape, 2.5)
    )
    case("cast", normal(*shape), attrs={"dtype": "float64"}, oracle=lambda x, dtype: x, tolerance32=1e-7)
case("full", attrs={"shape": (2,), "value": 3, "dtype": "int32"}, oracle=lambda shape, **a: np.full(shape, 3, "int32"))
case("cast", normal(4) * 5, attrs={"dtype": "int32"}, oracle=lambda x, dtype: np.trunc(x).astype(dtype), gradient=False)
case("cast", bools(4), attrs={"dtype": "float64"}, oracle=lambda x, dtype: x * 1.0)
