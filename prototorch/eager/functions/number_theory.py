"""Functions of integers and of parts of numbers: common divisors, mantissas, indices of flattened tensors."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from prototorch import ops
from prototorch.eager.dims import as_ints, normalize_dim
from prototorch.eager.functions.statistics import vector_norm
from prototorch.eager.operands import accepts_out, cast_to, promote
from prototorch.eager.registry import tensor_function
from prototorch.eager.value_bounds import bounded_values
from prototorch.errors import ShapeError, UsageError

__all__ = ["corrcoef", "cov", "frexp", "gcd", "lcm", "renorm", "unravel_index"]

frexp_result = namedtuple("frexp_result", ("mantissa", "exponent"))


def _integers(name: str, input: Any, other: Any) -> list[Any]:
    a, b = promote(name, input, other)
    if str(a.dtype).startswith(("float", "bfloat", "bool")):
        raise UsageError(f"{name}: expected integers, got elements of type {a.dtype}")
    return [a, b]


@tensor_function(in_place=True)
@accepts_out
def gcd(input: Any, other: Any) -> Any:
    """The greatest common divisor of integers, by Euclid's algorithm (torch.gcd)."""
    a, b = _integers("gcd", input, other)
    a, b = (x if str(x.dtype).startswith("uint") else ops.abs(x) for x in (a, b))
    b = ops.add(b, ops.multiply(a, ops.zeros_like(a)))  # of the result's shape from here on
    a = ops.add(a, ops.multiply(b, ops.zeros_like(b)))
    for _ in range(96):  # numbers of 64 bits need at most 92 steps (Fibonacci numbers)
        is_zero = ops.equal(b, ops.zeros_like(b))
        rest = ops.remainder(a, ops.where(is_zero, ops.ones_like(b), b))
        a, b = ops.where(is_zero, a, b), ops.where(is_zero, b, rest)
        if hasattr(b.interpreter, "backend") and not b.numpy().any():
            break
    return a


@tensor_function(in_place=True)
@accepts_out
def lcm(input: Any, other: Any) -> Any:
    """The least common multiple of integers, 0 where one is 0 (torch.lcm)."""
    a, b = _integers("lcm", input, other)
    divisor = gcd(a, b)
    safe = ops.where(ops.equal(divisor, ops.zeros_like(divisor)), ops.ones_like(divisor), divisor)
    product = ops.multiply(ops.floor_divide(a, safe), b)
    return product if str(product.dtype).startswith("uint") else ops.abs(product)


@tensor_function(method=False)
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The coordinates in a tensor of a shape of indices of its flattened form (torch.unravel_index)."""
    sizes = as_ints((shape,) if isinstance(shape, int) else shape, "unravel_index", "shape")
    if str(indices.dtype).startswith(("float", "bfloat", "bool")):
        raise UsageError(f"unravel_index: expected integers, got {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise UsageError(f"unravel_index: sizes must not be negative, got {list(sizes)}")
    rest, indices_per_dim = cast_to(indices, "int64"), []
    for n in reversed(sizes):
        size = cast_to(n, "int64", rest)
        indices_per_dim.append(ops.remainder(rest, size))
        rest = ops.floor_divide(rest, size)
    return tuple(reversed(indices_per_dim))


@tensor_function(in_place=True)
@accepts_out
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Each slice along a dimension scaled so that its p-norm is at most ``maxnorm`` (torch.renorm)."""
    if not p > 0 or maxnorm < 0 or input.ndim < 2:
        raise UsageError(
            f"renorm: expected p > 0, maxnorm >= 0 and at least 2 dimensions, got {p}, {maxnorm} and {input.ndim}"
        )
    axis = normalize_dim(dim, input.ndim, "renorm")
    size = vector_norm(input, p, tuple(i for i in range(input.ndim) if i != axis), True)
    scale = ops.where(ops.greater(size, float(maxnorm)), float(maxnorm) / (size + 1e-7), ops.ones_like(size))
    return ops.multiply(input, scale)


@tensor_function
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix of variables in rows, observations in columns; fweights: how often each observation counts,
    aweights: its importance (torch.cov)."""
    if input.ndim > 2:
        raise ShapeError(f"cov: expected at most 2 dimensions, got shape {list(input.shape)}")
    x = input if str(input.dtype).startswith(("float", "bfloat")) else cast_to(input, "float32")
    x = ops.reshape(x, shape=(1, -1) if x.ndim < 2 and x.spec.size else (1, 0)) if x.ndim < 2 else x
    weights = None
    for what, one in (("fweights", fweights), ("aweights", aweights)):
        if one is not None:
            one = _weights(what, one)
            if one.ndim > 1 or one.spec.size != x.shape[1]:
                raise ShapeError(
                    f"cov: expected one weight for each of {x.shape[1]} observations, got {list(one.shape)}"
                )
            observation_weights = ops.reshape(cast_to(one, x.dtype), shape=(x.shape[1],))
            weights = observation_weights if weights is None else weights * observation_weights
    count = cast_to(float(x.shape[1]), x.dtype, x) if weights is None else ops.sum(weights)
    total = ops.sum(x if weights is None else x * weights, axis=1, keepdims=True)
    centred = x - total / count
    if aweights is None or correction == 0:
        room = count - float(correction)
    else:
        room = count - ops.sum(weights * cast_to(aweights, x.dtype)) / count * float(correction)
    room = ops.maximum(room, 0.0)
    y = ops.matmul(centred if weights is None else centred * weights, centred, transpose_b=True) / room
    return ops.reshape(y, shape=()) if x.shape[0] == 1 else y


def _weights(what: str, weights: Any) -> Any:
    is_float = str(weights.dtype).startswith(("float", "bfloat"))
    if is_float != (what == "aweights"):
        kind = "floating-point numbers" if what == "aweights" else "integers"
        raise UsageError(f"cov: {what} must be {kind}, got {weights.dtype}")
    return bounded_values(weights, f"cov: {what} must not be negative, got {{}}", 0)


@tensor_function
def corrcoef(input: Any) -> Any:
    """The correlation coefficients of variables in rows, observations in columns (torch.corrcoef)."""
    y = cov(input)
    if not y.ndim:
        return y / y
    deviation = ops.sqrt(y.diagonal())
    y = y / ops.expand_dims(deviation, 1) / deviation
    return ops.clip(y, -1.0, 1.0)


@tensor_function
def frexp(input: Any) -> Any:
    """Mantissas of sizes in [0.5, 1) and int32 exponents with mantissa * 2 ** exponent = input, as a named tuple
    (torch.frexp)."""
    if not str(input.dtype).startswith(("float", "bfloat")):
        raise UsageError(f"frexp: expected floating-point elements, got {input.dtype}")
    x = ops.stop_gradient(input)
    size = ops.abs(x)
    is_plain = ops.logical_and(ops.isfinite(x), ops.greater(size, ops.zeros_like(x)))
    one = ops.ones_like(x)
    exponent = ops.floor(ops.log2(ops.where(is_plain, size, one))) + 1.0
    half = ops.floor(exponent * 0.5)  # two factors, of which none overflows
    scale = ops.exp2(-half) * 1.0, ops.exp2(half - exponent)
    mantissa = size * scale[0] * scale[1]
    low, high = ops.less(mantissa, 0.5), ops.greater_equal(mantissa, 1.0)  # where the logarithm was rounded
    shift = ops.where(low, one, ops.where(high, -one, ops.zeros_like(x)))
    shift = ops.where(is_plain, shift, ops.zeros_like(x))
    y = input * ops.where(is_plain, scale[0], one) * ops.where(is_plain, scale[1] * ops.exp2(shift), one)
    exponent = ops.where(is_plain, exponent - shift, ops.zeros_like(x))
    return frexp_result(y, ops.cast(exponent, dtype="int32"))
