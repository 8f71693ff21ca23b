"""Cases of functions of one or two numbers: Python's math module, or PyTorch in float64."""

import math

import numpy as np
import torch

from tests.ops.op_case import SHAPES, away, bools, case, each, integers, normal, positive

PAIRS = [((), ()), ((3,), ()), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((2, 3), (2, 3))]


def by_torch(function):
    """An oracle of a function of PyTorch's tensors."""

    def oracle(*arrays, **attrs):
        return function(*map(torch.from_numpy, map(np.asarray, arrays)), **attrs).numpy()

    return oracle


def fraction(*shape, seed=0):
    """Numbers between -0.9 and 0.9."""
    return np.random.default_rng([seed, *shape, 5]).random(shape) * 1.8 - 0.9


def above_one(*shape, seed=0):
    """Numbers between 1.3 and 3.3."""
    return positive(*shape, seed=seed) + 1


def reflection(x, n):
    """Polygamma of negative numbers by the recurrence psi(x) = psi(x + 1) - (-1) ** n n! / x ** (n + 1)."""
    total = np.zeros_like(x)
    while (x < 0).any():
        total -= np.where(x < 0, (-1.0) ** n * math.factorial(n) / x ** (n + 1), 0.0)
        x = np.where(x < 0, x + 1, x)
    return total + torch.polygamma(n, torch.tensor(x, dtype=torch.float64)).numpy()


UNARY = {
    "tan": (math.tan, fraction),
    "asin": (math.asin, fraction),
    "acos": (math.acos, fraction),
    "atan": (math.atan, normal),
    "sinh": (math.sinh, normal),
    "cosh": (math.cosh, normal),
    "asinh": (math.asinh, normal),
    "acosh": (math.acosh, above_one),
    "atanh": (math.atanh, fraction),
    "log2": (math.log2, positive),
    "log10": (math.log10, positive),
    "exp2": (lambda v: 2.0**v, normal),
    "lgamma": (math.lgamma, positive),
    "erfc": (math.erfc, normal),
}
for name, (function, fill) in UNARY.items():
    for shape in SHAPES:
        case(name, fill(*shape), oracle=each(function))
for name, function, fill in [
    ("digamma", torch.digamma, positive),
    ("erfinv", torch.erfinv, fraction),
    ("erfcx", torch.special.erfcx, normal),
    ("i0e", torch.special.i0e, away),
    ("i1e", torch.special.i1e, away),
]:
    for shape in SHAPES:
        case(name, fill(*shape), oracle=by_torch(function), tolerance=1e-13)
case("lgamma", np.linspace(-4.9, 30, 78), oracle=each(math.lgamma), second=False, gradient=False)
case("erfc", np.linspace(-7, 26, 301), oracle=each(math.erfc), gradient=False, tolerance=1e-15)
case("erfcx", np.linspace(-5, 200, 301), oracle=by_torch(torch.special.erfcx), gradient=False)
case("digamma", np.linspace(-4.9, 30, 78), oracle=by_torch(torch.digamma), gradient=False, tolerance=2e-13)
case("i0e", np.linspace(-80, 80, 97), oracle=by_torch(torch.special.i0e), gradient=False)
case("i1e", np.linspace(-80, 80, 97), oracle=by_torch(torch.special.i1e), gradient=False)
case("i1e", np.array([-1e-3, 0.0, 1e-3]), oracle=by_torch(torch.special.i1e), gradient=False)
for n in (1, 2, 3):
    for shape in ((), (7,), (0, 3)):
        case(
            "polygamma",
            positive(*shape),
            attrs={"n": n},
            tolerance=3e-9,
            oracle=by_torch(lambda x, n: torch.polygamma(n, x)),
        )
    case("polygamma", np.array([-0.3, -2.7, -1.5]), attrs={"n": n}, tolerance=3e-9, gradient=False, oracle=reflection)
for a, b in PAIRS:
    case("hurwitz_zeta", above_one(*a), positive(*b), constant=(0,), oracle=by_torch(torch.special.zeta))
    case("atan2", normal(*a), positive(*b), oracle=each(math.atan2))
    case("hypot", positive(*a), normal(*b), oracle=each(math.hypot))
    case("logaddexp", normal(*a), normal(*b, seed=1) * 5, oracle=by_torch(torch.logaddexp))
    case("copysign", away(*a), away(*b, seed=1), zero=(1,), oracle=each(math.copysign))
    case("nextafter", normal(*a), normal(*b, seed=1), gradient=False, tolerance32=1e-6, oracle=each(math.nextafter))
    case("fmod", away(*a) * 3, positive(*b, seed=2), gradient=False, oracle=each(math.fmod))
    case("logical_xor", bools(*a, seed=1), bools(*b, seed=2), oracle=each(lambda v, w: v != w, "bool"))
case("fmod", np.array([5.5, -5.5, 7.25, -7.25]), np.array([2.0, 2.0, -3.0, -3.0]), oracle=each(math.fmod))
case("fmod", integers(6, below=20) - 10, np.array(3), oracle=by_torch(torch.fmod))
case(
    "logaddexp",
    np.array([np.inf, -np.inf, -np.inf]),
    np.array([np.inf, -np.inf, 1.0]),
    gradient=False,
    oracle=by_torch(torch.logaddexp),
)

strange = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.0])
case("isnan", strange, oracle=each(math.isnan, "bool"), gradient=False)
case("isinf", strange, oracle=each(math.isinf, "bool"), gradient=False)
case("signbit", strange, oracle=each(lambda v: math.copysign(1, v) < 0, "bool"), gradient=False)
case("isnan", integers(3, below=4), oracle=each(math.isnan, "bool"))
case("isinf", integers(3, below=4), oracle=each(math.isinf, "bool"))
for shape in SHAPES:
    case("trunc", away(*shape, kinks=np.arange(-8, 9)), oracle=each(math.trunc), zero=(0,))

BITS = {"bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b}
for name, function in BITS.items():
    for dtype in ("int64", "uint8", "int32"):
        case(name, integers(4, below=99, dtype=dtype), integers(3, 1, below=99, dtype=dtype), oracle=each(function))
    case(name, bools(4), bools(3, 1, seed=1), oracle=each(function, "bool"))
case("bitwise_not", integers(4, below=99), oracle=each(lambda v: ~v))
case("bitwise_not", bools(4), oracle=each(lambda v: not v, "bool"))
distances = np.array([0, 1, 5, 31, -1], "int64")
case("bitwise_left_shift", integers(5, below=99), distances, oracle=each(lambda a, b: a << b if b >= 0 else 0))
case("bitwise_right_shift", integers(5, below=99) - 50, distances, oracle=each(lambda a, b: a >> (b if b >= 0 else 63)))
