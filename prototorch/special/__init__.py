"""Special functions by PyTorch's names: ``pt.special.expit(x)``."""

from __future__ import annotations

import math
from typing import Any

from prototorch import ops
from prototorch.eager.functions.clamp_min_max import xlogy
from prototorch.eager.functions.reductions import log_softmax, logsumexp, softmax
from prototorch.eager.functions.rounding import round
from prototorch.eager.functions.unary import logit, polygamma, sinc
from prototorch.eager.operands import promote_to_float, to_float
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import UsageError, did_you_mean

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e",
    "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "polygamma", "psi", "round",
    "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

digamma = psi = FUNCTIONS["digamma"]
erf, erfc, erfinv = FUNCTIONS["erf"], FUNCTIONS["erfc"], FUNCTIONS["erfinv"]
exp2, expm1, log1p = FUNCTIONS["exp2"], FUNCTIONS["expm1"], FUNCTIONS["log1p"]
expit, gammaln, i0 = FUNCTIONS["sigmoid"], FUNCTIONS["lgamma"], FUNCTIONS["i0"]
_ROOT_HALF = math.sqrt(0.5)


def entr(input: Any) -> Any:
    """-x * log(x) of each element, 0 at 0 and -infinity below (torch.special.entr)."""
    x = to_float(input, "entr")
    is_positive = ops.greater(x, ops.zeros_like(x))
    inside = -x * ops.log(ops.where(is_positive, x, ops.ones_like(x)))
    outside = ops.where(ops.less(x, ops.zeros_like(x)), ops.stop_gradient(x) * math.inf, x)  # -infinity, 0 or NaN
    return ops.where(is_positive, inside, outside)


def erfcx(input: Any) -> Any:
    """exp(x * x) * erfc(x) of each element (torch.special.erfcx)."""
    return ops.erfcx(to_float(input, "erfcx"))


def i0e(input: Any) -> Any:
    """exp(-|x|) * i0(x) of each element (torch.special.i0e)."""
    return ops.i0e(to_float(input, "i0e"))


def i1(input: Any) -> Any:
    """The modified Bessel function of the first kind of order 1 of each element (torch.special.i1)."""
    x = to_float(input, "i1")
    return ops.exp(ops.abs(x)) * ops.i1e(x)


def i1e(input: Any) -> Any:
    """exp(-|x|) * i1(x) of each element (torch.special.i1e)."""
    return ops.i1e(to_float(input, "i1e"))


def ndtr(input: Any) -> Any:
    """The probability that a standard normal variable is below each element (torch.special.ndtr)."""
    return ops.erfc(to_float(input, "ndtr") * -_ROOT_HALF) * 0.5


def log_ndtr(input: Any) -> Any:
    """The logarithm of `ndtr`, accurate for small probabilities (torch.special.log_ndtr)."""
    x = to_float(input, "log_ndtr")
    is_low = ops.less(x, -1.0)
    low, high = ops.minimum(x, -1.0), ops.maximum(x, -1.0)
    tail = ops.log(ops.erfcx(low * -_ROOT_HALF) * 0.5) - ops.square(low) * 0.5
    return ops.where(is_low, tail, ops.log1p(ops.erfc(high * _ROOT_HALF) * -0.5))


def xlog1py(input: Any, other: Any) -> Any:
    """input * log1p(other), 0 where input is 0 and other is not NaN (torch.special.xlog1py)."""
    a, b = promote_to_float("xlog1py", input, other)
    is_zero = ops.logical_and(ops.equal(a, ops.zeros_like(a)), ops.logical_not(ops.isnan(b)))
    return ops.where(is_zero, a * 0.0, a * ops.log1p(ops.where(is_zero, ops.zeros_like(b), b)))


def zeta(input: Any, other: Any) -> Any:
    """Hurwitz' zeta function: the sum of (other + k) ** -input over k >= 0, for other > 0 (torch.special.zeta)."""
    return ops.hurwitz_zeta(*promote_to_float("zeta", input, other))


def multigammaln(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension ``p`` (torch.special.multigammaln)."""
    if isinstance(p, bool) or not isinstance(p, int) or p < 1:
        raise UsageError(f"multigammaln: p must be a positive integer, got {p!r:.40}")
    x = to_float(input, "multigammaln")
    terms = [ops.lgamma(x - k / 2) for k in range(p)]
    return sum(terms[1:], terms[0]) + p * (p - 1) / 4 * math.log(math.pi)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"prototorch.special has no function {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
