"""Activation functions. Where it can, a derivative uses the output, so that a plan may let the input go."""

from __future__ import annotations

import math
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import (
    Unary,
    broadcast,
    clip,
    exp,
    expm1,


    minimum,
    tanh,
    where,

)
from prototorch.spec import Spec

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al., 2017


class Relu(Unary):
    """max(x, 0); NaN stays. The derivative at 0 is 0."""

    derivatives = (lambda g, y, x: relu_grad(g, y),)

    def plain(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
        return xp.maximum(x, xp.zeros((), dtype=x.dtype))


class ReluGrad(Op):
    """g where the output of a rectifier is above 0, else 0."""

    inplace = {0: 0}
    derivatives = (lambda g, y, dy, out: relu_grad(g, out), None)

    def rule(self, g: Spec, y: Spec) -> Spec:  # type: ignore[override]
        return Spec(broadcast(self, (g.shape, y.shape)), g.dtype)

    def plain(self, xp: Any, g: Any, y: Any) -> Any:  # type: ignore[override]
        return xp.where(y > 0, g, xp.zeros((), dtype=g.dtype))


class Sigmoid(Unary):
    """1 / (1 + exp(-x)), without overflow."""

    derivatives = (lambda g, y, x: sigmoid_grad(g, y),)

    def plain(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
        e = xp.exp(-xp.abs(x))
        return xp.where(x >= 0, 1 / (1 + e), e / (1 + e))


class SigmoidGrad(Op):
    """g * y * (1 - y)."""

    inplace = {0: 0}

    def expand(self, g: Any, y: Any) -> Any:  # type: ignore[override]
        return g * y * (1 - y)

    def rule(self, g: Spec, y: Spec) -> Spec:  # type: ignore[override]
        return Spec(broadcast(self, (g.shape, y.shape)), g.dtype)


class Softplus(Unary):
    """log(1 + exp(x)), without overflow."""

    derivatives = (lambda g, y, x: g * sigmoid(x),)

    def plain(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
        return xp.maximum(x, xp.zeros((), dtype=x.dtype)) + xp.log1p(xp.exp(-xp.abs(x)))


class Erf(Unary):
    """The error function, to about 1e-15 in float64 (series below 2.5, a continued fraction above)."""

    derivatives = (lambda g, y, x: g * exp(-x * x) * (2 / math.sqrt(math.pi)),)

    def plain(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
        a = xp.astype(xp.abs(x), xp.float64)
        low = xp.where(a < 2.5, a, xp.zeros((), dtype=xp.float64))
        square = low * low
        term = total = low
        for n in range(1, 48):  # erf(x) = 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!
            term = term * (2 * square / (2 * n + 1))
            total = total + term
        inner = total * xp.exp(-square) * (2 / math.sqrt(math.pi))
        high = xp.where(a < 2.5, xp.full((), 2.5, dtype=xp.float64), xp.minimum(a, xp.full((), 6.0, dtype=xp.float64)))
        fraction = high
        for n in range(60, 0, -1):  # erfc(x) = exp(-x^2) / sqrt(pi) / (x + 1/2/(x + 1/(x + 3/2/(x + ...))))
            fraction = high + (n / 2) / fraction
        outer = 1 - xp.exp(-high * high) / (fraction * math.sqrt(math.pi))
        result = xp.where(a < 2.5, inner, outer)
        result = xp.where(xp.isnan(a), a, result)
        return xp.astype(xp.sign(x), x.dtype) * xp.astype(result, x.dtype)


class Gelu(Unary):
    """x * Phi(x) (Hendrycks and Gimpel, 2016); ``approximate`` takes the tanh form."""

    def expand(self, x: Any, approximate: bool = False) -> Any:  # type: ignore[override]
        if approximate:
            return 0.5 * x * (1 + tanh((x + 0.044715 * x * x * x) * math.sqrt(2 / math.pi)))
        return 0.5 * x * (1 + erf(x * (1 / math.sqrt(2))))

    plain = Op.plain


relu, relu_grad, sigmoid, sigmoid_grad, softplus = Relu(), ReluGrad(), Sigmoid(), SigmoidGrad(), Softplus()
erf, gelu = Erf(), Gelu()


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6)."""
    return minimum(relu(x), 6.0)


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """x where x > 0, else negative_slope * x."""
    return where(x > 0, x, x * negative_slope)


def prelu(x: Any, alpha: Any) -> Any:
    """x where x > 0, else alpha * x; alpha broadcasts."""
    return where(x > 0, x, x * alpha)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1)."""
    return where(x > 0, x, expm1(minimum(x, 0.0)) * alpha)


def selu(x: Any) -> Any:
    """The scaled `elu` that keeps mean and variance (Klambauer et al., 2017)."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


def silu(x: Any) -> Any:
    """x * sigmoid(x), also called swish."""
    return x * sigmoid(x)


def mish(x: Any) -> Any:
    """x * tanh(softplus(x))."""
    return x * tanh(softplus(x))


def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1 + where(x < 0, -x, x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6, as in Keras and PyTorch."""
    return clip(x + 3.0, 0.0, 6.0) * (1 / 6)


def hard_swish(x: Any) -> Any:
    """x * hard_sigmoid(x)."""
    return x * hard_sigmoid(x)


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return -softplus(-x)


