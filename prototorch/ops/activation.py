"""Activation functions. Where the derivative follows from the output, the gradient reads the output, so that a plan may
free the input.

Each gradient is an op of its own (`relu_grad(g, y)`, `gelu_grad(g, x)`), expressed in simpler ops, so that it has
derivatives too.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.ops.core import Op
from prototorch.ops.elementwise import (
    UnaryOp,
    abs_,
    exp,
    full,
    logical_and,
    minimum,
    ones_like,
    square,
    tanh,
    where,
    zeros_like,
)
from prototorch.ops.facts import flops_per_output
from prototorch.ops.reduce import sum_to
from prototorch.ops.special import erf, erf_array
from prototorch.spec import Spec

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_ROOT_HALF, _INV_ROOT_TAU, _ROOT_2_PI = 0.7071067811865476, 0.3989422804014327, 0.7978845608028654


class ActivationGrad(Op):
    """``g * derivative(v)``: the gradient of an activation from its input or output v; the derivative is
    expressed in ops."""

    elementwise = True
    inplace = {0: 0}
    #: whether v is the output of an activation that nowhere decreases: the largest output of a window tells the
    #: derivative at its largest input
    reads_output: ClassVar[bool] = False
    #: whether the derivative follows from the sign of v alone, which a positive factor does not change
    reads_sign: ClassVar[bool] = False

    def derivative(self, v: Any, **attrs: Any) -> Any:
        """The derivative at v."""
        raise NotImplementedError

    def infer_spec(self, g: Spec, v: Spec, **attrs: Any) -> Spec:
        if g.shape != v.shape or g.dtype != v.dtype:
            raise self.shape_error(f"expected two inputs of the same shape and dtype, got {g} and {v}")
        return g

    def decompose(self, g: Any, v: Any, **attrs: Any) -> Any:
        return g * self.derivative(v, **attrs)


class SelectingGrad(ActivationGrad):
    """The gradient of an activation that is constant outside an interval: 0 there whatever g is (inf and NaN too, of
    which a product with 0 would be NaN), as in PyTorch; ``scale(g, v)`` within it."""

    def passes(self, v: Any, **attrs: Any) -> Any:
        """The condition under which the activation is not constant at v."""
        raise TypeError(f"{self.name} does not define passes")

    def scale(self, g: Any, v: Any, **attrs: Any) -> Any:
        """The gradient where it passes."""
        return g

    def decompose(self, g: Any, v: Any, **attrs: Any) -> Any:
        return where(self.passes(v, **attrs), self.scale(g, v, **attrs), zeros_like(g))


def _positive_part(xp: Any, x: Any) -> Any:
    return xp.maximum(x, xp.zeros((), dtype=x.dtype))


def _negative_part(xp: Any, x: Any) -> Any:
    return xp.minimum(x, xp.zeros((), dtype=x.dtype))


def _exp_minus_abs(xp: Any, x: Any) -> Any:
    return xp.exp(-xp.abs(x))


def sigmoid_array(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)) without overflow."""
    top = xp.exp(_negative_part(xp, x))  # a second exponential is cheaper than an elementwise select
    top /= _exp_minus_abs(xp, x) + 1
    return top


def softplus_array(xp: Any, x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return _positive_part(xp, x) + xp.log1p(_exp_minus_abs(xp, x))


class ReluGrad(SelectingGrad):
    reads_output = True
    reads_sign = True

    def passes(self, v):
        return v > 0

    def reference(self, xp, g, v):
        return xp.where(v > 0, g, xp.zeros((), dtype=g.dtype))


class Relu(UnaryOp):
    """max(x, 0). The gradient at 0 is 0."""

    derivatives = (lambda g, y, x: relu_grad(g, y),)

    def reference(self, xp, x):
        return _positive_part(xp, x)


class Relu6Grad(SelectingGrad):
    reads_output = True

    def passes(self, v):
        return logical_and(v > 0, v < 6)


class Relu6(UnaryOp):
    """min(max(x, 0), 6)."""

    derivatives = (lambda g, y, x: relu6_grad(g, y),)

    def reference(self, xp, x):
        return xp.minimum(_positive_part(xp, x), xp.full((), 6, dtype=x.dtype))


class LeakyReluGrad(ActivationGrad):
    reads_output = True
    reads_sign = True

    def derivative(self, v, negative_slope):
        return where(v > 0, ones_like(v), full.apply_like(v, shape=(), value=negative_slope, dtype=v.dtype))


class LeakyRelu(UnaryOp):
    """x where x > 0, else ``negative_slope`` * x."""

    derivatives = (
        lambda g, y, x, negative_slope=0.2: leaky_relu_grad(
            g, y if negative_slope >= 0 else x, negative_slope=negative_slope
        ),
    )

    def reference(self, xp, x, negative_slope: float = 0.2):
        if 0 <= negative_slope <= 1:
            return xp.maximum(x, x * negative_slope)
        return _positive_part(xp, x) + _negative_part(xp, x) * negative_slope


class EluGrad(ActivationGrad):
    """From the input."""

    def derivative(self, v, alpha):
        return where(v > 0, ones_like(v), exp(minimum(v, 0)) * alpha)


class Elu(UnaryOp):
    """x where x > 0, else ``alpha`` * (exp(x) - 1)."""

    derivatives = (lambda g, y, x, alpha=1.0: elu_grad(g, x, alpha=alpha),)

    def reference(self, xp, x, alpha: float = 1.0):
        return _positive_part(xp, x) + xp.expm1(_negative_part(xp, x)) * alpha


class Selu(UnaryOp):
    """SELU_SCALE * elu(x, SELU_ALPHA): keeps mean 0 and variance 1."""

    derivatives = (lambda g, y, x: elu_grad(g * SELU_SCALE, x, alpha=SELU_ALPHA),)

    def reference(self, xp, x):
        return (_positive_part(xp, x) + xp.expm1(_negative_part(xp, x)) * SELU_ALPHA) * SELU_SCALE


class GeluGrad(ActivationGrad):
    """From the input."""

    def derivative(self, v, approximate):
        if approximate:
            u = tanh((v + square(v) * v * 0.044715) * _ROOT_2_PI)
            inner = (square(v) * (3 * 0.044715) + 1) * _ROOT_2_PI
            return (u + 1) * 0.5 + v * (1 - u * u) * inner * 0.5
        return (erf(v * _ROOT_HALF) + 1) * 0.5 + v * exp(square(v) * -0.5) * _INV_ROOT_TAU

    def reference(self, xp, g, v, approximate):
        if approximate:
            return super().reference(xp, g, v, approximate=approximate)
        slope = erf_array(xp, v * _ROOT_HALF)
        slope += 1
        slope *= 0.5
        slope += xp.exp(v * v * -0.5) * v * _INV_ROOT_TAU
        slope *= g
        return slope


class Gelu(UnaryOp):
    """x * P(X <= x) of a normal X; with ``approximate`` by the tanh formula."""

    derivatives = (lambda g, y, x, approximate=False: gelu_grad(g, x, approximate=approximate),)
    flops = flops_per_output(5)

    def reference(self, xp, x, approximate: bool = False):
        if approximate:
            y = xp.tanh((x + x * x * x * 0.044715) * _ROOT_2_PI)
        else:
            y = erf_array(xp, x * _ROOT_HALF)
        y += 1
        y *= x * 0.5
        return y


class SigmoidGrad(ActivationGrad):
    """From the output."""

    reads_output = True

    def derivative(self, v):
        return v * (1 - v)

    def reference(self, xp, g, v):
        out = 1 - v
        out *= v
        out *= g
        return out


class Sigmoid(UnaryOp):
    """1 / (1 + exp(-x)), without overflow."""

    derivatives = (lambda g, y, x: sigmoid_grad(g, y),)
    flops = flops_per_output(3)

    def reference(self, xp, x):
        return sigmoid_array(xp, x)


class SiluGrad(ActivationGrad):
    """From the input."""

    def derivative(self, v):
        s = sigmoid(v)
        return s * (v * (1 - s) + 1)


class Silu(UnaryOp):
    """x * sigmoid(x), also called swish."""

    derivatives = (lambda g, y, x: silu_grad(g, x),)
    flops = flops_per_output(3)

    def reference(self, xp, x):
        return x * sigmoid_array(xp, x)


class MishGrad(ActivationGrad):
    """From the input."""

    def derivative(self, v):
        t = tanh(softplus(v))
        return t + v * (1 - t * t) * sigmoid(v)


class Mish(UnaryOp):
    """x * tanh(softplus(x))."""

    derivatives = (lambda g, y, x: mish_grad(g, x),)

    def reference(self, xp, x):
        return x * xp.tanh(softplus_array(xp, x))


class Softplus(UnaryOp):
    """log(1 + exp(x)), without overflow."""

    derivatives = (lambda g, y, x: g * sigmoid(x),)

    def reference(self, xp, x):
        return softplus_array(xp, x)


class LogSigmoid(UnaryOp):
    """log(sigmoid(x)), without overflow."""

    derivatives = (lambda g, y, x: g * sigmoid(-x),)

    def reference(self, xp, x):
        return -softplus_array(xp, -x)


class SoftsignGrad(ActivationGrad):
    """From the input."""

    def derivative(self, v):
        return 1 / square(abs_(v) + 1)


class Softsign(UnaryOp):
    """x / (1 + |x|)."""

    derivatives = (lambda g, y, x: softsign_grad(g, x),)

    def reference(self, xp, x):
        return x / (xp.abs(x) + 1)


class HardSigmoidGrad(SelectingGrad):
    """From the output."""

    reads_output = True

    def passes(self, v):
        return logical_and(v > 0, v < 1)

    def scale(self, g, v):
        return g * (1 / 6)


class HardSigmoid(UnaryOp):
    """relu6(x + 3) / 6, as in Keras 3 and PyTorch."""

    derivatives = (lambda g, y, x: hard_sigmoid_grad(g, y),)

    def reference(self, xp, x):
        y = xp.minimum(xp.maximum(x + 3, xp.zeros((), dtype=x.dtype)), xp.full((), 6, dtype=x.dtype))
        return y / 6


class HardSwishGrad(SelectingGrad):
    """From the input."""

    def passes(self, v):
        return v > -3

    def scale(self, g, v):
        return g * where(v < 3, (v * 2 + 3) * (1 / 6), ones_like(v))


class HardSwish(UnaryOp):
    """x * hard_sigmoid(x)."""

    derivatives = (lambda g, y, x: hard_swish_grad(g, x),)

    def reference(self, xp, x):
        return x * hard_sigmoid.reference(xp, x)


class Prelu(Op):
    """x where x > 0, else alpha * x; alpha broadcasts to x's shape. Inputs: x, alpha."""

    elementwise = True
    derivatives = (
        lambda g, y, x, alpha: where(x > 0, g, g * alpha),
        lambda g, y, x, alpha: sum_to(where(x > 0, zeros_like(g), g * x), alpha.shape),
    )

    def infer_spec(self, x: Spec, alpha: Spec) -> Spec:
        alpha_shape = (1,) * (x.ndim - alpha.ndim) + alpha.shape
        if len(alpha_shape) != x.ndim or any(a not in (1, n) for a, n in zip(alpha_shape, x.shape, strict=True)):
            raise self.shape_error(f"alpha of shape {list(alpha.shape)} does not broadcast to {list(x.shape)}")
        if not x.is_float or x.dtype != alpha.dtype:
            raise self.shape_error(f"expected floating-point inputs of the same dtype, got {x.dtype} and {alpha.dtype}")
        return x

    def reference(self, xp, x, alpha):
        return _positive_part(xp, x) + alpha * _negative_part(xp, x)


relu_grad, relu6_grad, leaky_relu_grad = ReluGrad(), Relu6Grad(), LeakyReluGrad()
elu_grad, gelu_grad = EluGrad(), GeluGrad()
sigmoid_grad, silu_grad, mish_grad, softsign_grad = SigmoidGrad(), SiluGrad(), MishGrad(), SoftsignGrad()
hard_sigmoid_grad, hard_swish_grad = HardSigmoidGrad(), HardSwishGrad()
relu, relu6, leaky_relu, prelu, elu, selu, gelu = Relu(), Relu6(), LeakyRelu(), Prelu(), Elu(), Selu(), Gelu()
sigmoid, silu, mish, softplus, log_sigmoid, softsign = Sigmoid(), Silu(), Mish(), Softplus(), LogSigmoid(), Softsign()
hard_sigmoid, hard_swish = HardSigmoid(), HardSwish()
