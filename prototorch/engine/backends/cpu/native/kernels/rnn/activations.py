"""The activations of recurrent layers, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from prototorch.engine.backends.cpu.native import exp_log
from prototorch.engine.backends.cpu.native.array_tracer import trace_reference
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, Num
from prototorch.ops.core import Op
from prototorch.ops.recurrent import GATE_ACTIVATIONS

__all__ = ["ACTIVATIONS", "ACTIVATION_DERIVATIVES"]


def _exp_parts(k: KernelBuilder, x: Num) -> tuple[Num, Num]:
    """Return exp(x) as 2 ** n and r, exp(x) = 2 ** n * (1 + r). For -87 <= x <= 87, and NaN."""
    n = k.unary_intrinsic("rint", x * 1.4426950408889634)
    r = k.fma(n, k.num(2.12194440e-4).splat(x.lanes), k.fma(n, k.num(-0.693359375).splat(x.lanes), x))
    polynomial = k.num(1 / 720).splat(x.lanes)
    for c in (1 / 120, 1 / 24, 1 / 6, 1 / 2):
        polynomial = k.fma(polynomial, r, k.num(c).splat(x.lanes))
    bits = (n.cast("int32") + 127) << 23
    return Num(k, k.b.bitcast(bits.v, x.v.type), x.dtype, x.lanes), k.fma(polynomial * r, r, r)


def _clip(k: KernelBuilder, x: Num, limit: float) -> Num:
    """Clip x to [-limit, limit]; NaN stays."""
    x = k.select(x > limit, k.num(limit), x)
    return k.select(x < -limit, k.num(-limit), x)


def sigmoid(k: KernelBuilder, x: Num) -> Num:
    """1 / (1 + exp(-x)), within 4 units in the last place down to 1e-38."""
    scale, r = _exp_parts(k, _clip(k, -x, 87.0))
    return k.num(1.0) / (k.fma(scale, r, scale) + 1.0)


def tanh(k: KernelBuilder, x: Num) -> Num:
    """t / (t + 2) with t = exp(2 x) - 1, within 7 units in the last place."""
    scale, r = _exp_parts(k, _clip(k, x, 9.5) * 2.0)
    t = k.fma(scale, r, scale - 1.0)
    return t / (t + 2.0)


def _trace_activation(name: str) -> Callable[[KernelBuilder, Num], Num]:
    """Return an activation traced from the op's reference implementation."""
    return lambda k, x: trace_reference(k, cast(Op, GATE_ACTIVATIONS[name]).reference, [x], {})[0].splat(x.lanes)


def _select_positive(k: KernelBuilder, y: Num, if_positive: float, if_negative: Num) -> Num:
    return k.select(y > 0.0, k.num(if_positive), if_negative)


#: SELU's scale, and its limit at minus infinity, times -1
_SELU, _SELU_LIMIT = 1.0507009873554805, 1.7580993408473766


#: activations by name, and their derivatives as functions of the result
ACTIVATIONS: dict[str, Callable[[KernelBuilder, Num], Num]] = {
    "sigmoid": sigmoid, "tanh": tanh, "linear": lambda k, x: x, "relu": lambda k, x: k.maximum(x, 0.0),
    **{name: _trace_activation(name) for name in ("hard_sigmoid", "softsign", "softplus", "elu", "selu")},
}  # fmt: skip


ACTIVATION_DERIVATIVES: dict[str, Callable[[KernelBuilder, Num], Num]] = {
    "sigmoid": lambda k, y: y * (k.num(1.0) - y), "tanh": lambda k, y: k.num(1.0) - y * y,
    "linear": lambda k, y: k.num(1.0).splat(y.lanes), "relu": lambda k, y: k.select(y > 0.0, k.num(1.0), k.num(0.0)),
    "hard_sigmoid": lambda k, y: k.select((y > 0.0) & (y < 1.0), k.num(1 / 6), k.num(0.0)),
    "softsign": lambda k, y: (k.num(1.0) - k.unary_intrinsic("fabs", y)) ** 2,
    "softplus": lambda k, y: -exp_log.expm1(k, -y),
    "elu": lambda k, y: _select_positive(k, y, 1.0, y + 1.0),
    "selu": lambda k, y: _select_positive(k, y, _SELU, y + _SELU_LIMIT),
}  # fmt: skip
