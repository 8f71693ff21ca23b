"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.in_place import assign
from prototorch.eager.operands import cast_to, to_float
from prototorch.eager.registry import FUNCTIONS, in_place_form, takes_symbols, tensor_function
from prototorch.eager.tape import next_entry_number
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input

__all__ = ["celu", "celu_", "elu", "elu_", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
           "hardtanh_", "leaky_relu", "leaky_relu_", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "selu",
           "selu_", "sigmoid", "silu", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
           "threshold_"]  # fmt: skip


def _finish(x: Any, inplace: bool, name: str, compute: Callable[[Any], Any]) -> Any:
    check_input(x, name)
    if not inplace:
        return compute(x)
    since = next_entry_number()
    return assign(x, compute(x), name, since)


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0)."""
    return _finish(input, inplace, "relu", FUNCTIONS["relu"])


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)."""
    return _finish(input, inplace, "relu6", lambda x: ops.relu6(x) if x.spec.is_float else hardtanh(x, 0, 6))


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """The elements brought into [min_val, max_val]. The gradient at both bounds is 0."""
    if min_val > max_val:
        raise UsageError(f"hardtanh: expected min_val <= max_val, got {min_val} and {max_val}")

    def compute(x: Any) -> Any:
        low, high = (cast_to(v, x.dtype, x, checked="hardtanh") for v in (min_val, max_val))
        y = ops.where(ops.less_equal(x, low), low, x)
        return ops.where(ops.greater_equal(x, high), high, y)

    return _finish(input, inplace, "hardtanh", compute)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1)."""
    return _finish(input, inplace, "elu", lambda x: ops.elu(x, alpha=float(alpha)))


@tensor_function(method=False)
def selu(input: Any, inplace: bool = False) -> Any:
    """1.0507 * elu(x, 1.6733): keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    return _finish(input, inplace, "selu", ops.selu)


@tensor_function(method=False)
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where x > 0, else alpha * (exp(x / alpha) - 1)."""
    if not alpha:
        raise UsageError("celu: alpha must not be 0")

    def compute(x: Any) -> Any:
        if alpha > 0:
            return ops.elu(x * (1 / alpha), alpha=1.0) * alpha
        return ops.where(ops.greater(x, 0), x, ops.expm1(x * (1 / alpha)) * alpha)

    return _finish(input, inplace, "celu", compute)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where x > 0, else negative_slope * x."""
    return _finish(input, inplace, "leaky_relu", lambda x: ops.leaky_relu(x, negative_slope=float(negative_slope)))


@tensor_function
def prelu(input: Any, weight: Any) -> Any:
    """x where x > 0, else weight * x; weight [1] or [channels], for dimension 1."""
    check_input(input, "prelu")
    count = weight.spec.size
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or count not in (1, channels):
        raise ShapeError(f"prelu: expected a weight [1] or [{channels}], got {list(weight.shape)}")
    shape = (1,) * input.ndim if count == 1 else (1, count, *(1,) * (input.ndim - 2))
    return ops.prelu(input, ops.reshape(weight, shape=shape))


def gelu(input: Any, approximate: str = "none") -> Any:
    """x * P(X <= x) of a normal X (Hendrycks and Gimpel, 2016); ``approximate="tanh"``: by the tanh formula."""
    check_input(input, "gelu")
    if approximate not in ("none", "tanh"):
        raise UsageError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r:.60}")
    return ops.gelu(input, approximate=approximate == "tanh")


def silu(input: Any, inplace: bool = False) -> Any:
    """x * sigmoid(x)."""
    return _finish(input, inplace, "silu", ops.silu)


def mish(input: Any, inplace: bool = False) -> Any:
    """x * tanh(softplus(x))."""
    return _finish(input, inplace, "mish", ops.mish)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    check_input(input, "softplus")
    scaled_input = input if beta == 1 else input * beta
    y = ops.softplus(scaled_input)
    y = y if beta == 1 else y * (1 / beta)
    return ops.where(ops.greater(scaled_input, threshold), input, y)


def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return ops.softsign(to_float(input, "softsign"))


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0."""
    check_input(input, "softshrink")
    if lambd < 0:
        raise UsageError(f"softshrink: lambd must not be negative, got {lambd}")
    inside = ops.less_equal(ops.abs(input), lambd)
    return ops.where(inside, ops.zeros_like(input), input - ops.sign(input) * lambd)


@tensor_function
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    check_input(input, "hardshrink")
    return ops.where(ops.less_equal(ops.abs(input), lambd), ops.zeros_like(input), input)


def tanhshrink(input: Any) -> Any:
    """x - tanh(x)."""
    check_input(input, "tanhshrink")
    return input - ops.tanh(to_float(input, "tanhshrink"))


@tensor_function(method=False)
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where x > threshold, else value."""

    def compute(x: Any) -> Any:
        limit, other = (cast_to(v, x.dtype, x, checked="threshold") for v in (threshold, value))
        return ops.where(ops.less_equal(x, limit), other, x)

    return _finish(input, inplace, "threshold", compute)


def logsigmoid(input: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    check_input(input, "logsigmoid")
    return ops.log_sigmoid(input)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    return _finish(input, inplace, "hardsigmoid", ops.hard_sigmoid)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x * hardsigmoid(x)."""
    return _finish(input, inplace, "hardswish", ops.hard_swish)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half of a dimension times the sigmoid of the second (Dauphin et al., 2017)."""
    check_input(input, "glu")
    if not input.ndim or input.shape[dim] % 2:
        raise ShapeError(f"glu: dimension {dim} of {list(input.shape)} must have an even size")
    a, b = ops.split(input, parts=2, axis=dim % input.ndim)
    return a * ops.sigmoid(b)


def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return FUNCTIONS["sigmoid"](input)


def tanh(input: Any) -> Any:
    """The hyperbolic tangent."""
    return FUNCTIONS["tanh"](input)


relu_ = in_place_form(relu, "relu_")
elu_, selu_, celu_ = in_place_form(elu, "elu_"), in_place_form(selu, "selu_"), in_place_form(celu, "celu_")
hardtanh_, leaky_relu_ = in_place_form(hardtanh, "hardtanh_"), in_place_form(leaky_relu, "leaky_relu_")
threshold_ = in_place_form(threshold, "threshold_")
for _form in (relu_, selu_, celu_, threshold_):
    FUNCTIONS.setdefault(_form.__name__, takes_symbols(_form, _form.__name__, symbolic=False))
