"""An array namespace whose arrays are values of a kernel that is being emitted.

The reference implementation of an elementwise op, run with this namespace, emits the op's code: an op is defined once.
What the namespace does not support raises UnsupportedError, and the op is left to another level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.engine.backends.cpu.native import exp_log, pow, trig
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, Num, UnsupportedError


class TracingNamespace:
    """The elementwise functions of the array API, on the `Num`s of one kernel."""

    pi = 3.141592653589793

    def __init__(self, k: KernelBuilder):
        self.k = k

    def __getattr__(self, name: str) -> Any:
        if name in ("float32", "float64", "int32", "int64", "uint8", "uint32", "uint64"):
            return name
        if name == "bool":
            return "bool"
        raise UnsupportedError(f"the function {name}")

    # creation

    def zeros(self, shape: Any, dtype: Any = "float32") -> Num:
        """A scalar zero."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = "float32") -> Num:
        """A scalar one."""
        return self.full(shape, 1, dtype)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Num:
        """A scalar of a value."""
        if tuple(shape) != ():
            raise UnsupportedError(f"an array of shape {shape}")
        if isinstance(value, Num):
            return value if dtype is None else value.cast(_dtype_name(dtype))
        return self.k.num(value, _dtype_name(dtype or "float32"))

    def zeros_like(self, x: Num) -> Num:
        """Zero of the same type."""
        return self.k.num(0, x.dtype)

    def ones_like(self, x: Num) -> Num:
        """One of the same type."""
        return self.k.num(1, x.dtype)

    def full_like(self, x: Num, value: Any) -> Num:
        """A value of the same type."""
        return self.k.num(value, x.dtype)

    def asarray(self, value: Any, dtype: Any = None) -> Num:
        """A value as a `Num`."""
        own = getattr(value, "dtype", None)
        return self.full(getattr(value, "shape", ()), value, dtype or (str(own) if own is not None else None))

    def astype(self, x: Num, dtype: Any) -> Num:
        """The value in another dtype."""
        return x.cast(_dtype_name(dtype))

    # of one argument

    def negative(self, x: Num) -> Num:
        return -x

    def positive(self, x: Num) -> Num:
        return x

    def abs(self, x: Num) -> Num:
        if x.is_float:
            return self.k.unary_intrinsic("fabs", x)
        return self.k.select(x < 0, -x, x)

    def sqrt(self, x: Num) -> Num:
        return self.k.unary_intrinsic("sqrt", x)

    def square(self, x: Num) -> Num:
        return x * x

    def reciprocal(self, x: Num) -> Num:
        return self.k.num(1, x.dtype) / x

    def floor(self, x: Num) -> Num:
        return self.k.unary_intrinsic("floor", x) if x.is_float else x

    def ceil(self, x: Num) -> Num:
        return self.k.unary_intrinsic("ceil", x) if x.is_float else x

    def round(self, x: Num) -> Num:
        return self.k.unary_intrinsic("rint", x) if x.is_float else x

    def trunc(self, x: Num) -> Num:
        return self.k.unary_intrinsic("trunc", x) if x.is_float else x

    def sign(self, x: Num) -> Num:
        one, zero = self.k.num(1, x.dtype), self.k.num(0, x.dtype)
        result = self.k.select(x > 0, one, self.k.select(x < 0, -one, zero))
        return self.k.select(x != x, x, result) if x.is_float else result

    def exp(self, x: Num) -> Num:
        return exp_log.exp(self.k, x)

    def expm1(self, x: Num) -> Num:
        return exp_log.expm1(self.k, x)

    def log(self, x: Num) -> Num:
        return exp_log.log(self.k, x)

    def log1p(self, x: Num) -> Num:
        return exp_log.log1p(self.k, x)

    def tanh(self, x: Num) -> Num:
        return exp_log.tanh(self.k, x)

    def sin(self, x: Num) -> Num:
        return trig.sin(self.k, x)

    def cos(self, x: Num) -> Num:
        return trig.cos(self.k, x)

    def isnan(self, x: Num) -> Num:
        return x != x

    def isinf(self, x: Num) -> Num:
        return self.abs(x) == float("inf")

    def isfinite(self, x: Num) -> Num:
        return self.abs(x) < float("inf")

    def logical_not(self, x: Num) -> Num:
        return ~x.cast("bool")

    # of two arguments

    def add(self, a: Any, b: Any) -> Num:
        return a + b

    def subtract(self, a: Any, b: Any) -> Num:
        return a - b

    def multiply(self, a: Any, b: Any) -> Num:
        return a * b

    def divide(self, a: Any, b: Any) -> Num:
        return a / b

    def pow(self, a: Any, b: Any) -> Num:
        return pow.power(self.k, a, b)

    def floor_divide(self, a: Any, b: Any) -> Num:
        return pow.floor_divide(self.k, a, b)

    def remainder(self, a: Any, b: Any) -> Num:
        return pow.remainder(self.k, a, b)

    def maximum(self, a: Any, b: Any) -> Num:
        return self.k.maximum(a, b)

    def minimum(self, a: Any, b: Any) -> Num:
        return self.k.minimum(a, b)

    def where(self, condition: Num, a: Any, b: Any) -> Num:
        return self.k.select(condition, a, b)

    def logical_and(self, a: Num, b: Num) -> Num:
        return a.cast("bool") & b.cast("bool")

    def logical_or(self, a: Num, b: Num) -> Num:
        return a.cast("bool") | b.cast("bool")

    def equal(self, a: Any, b: Any) -> Num:
        return self.k.broadcast_pair(a, b)[0] == b

    def not_equal(self, a: Any, b: Any) -> Num:
        return self.k.broadcast_pair(a, b)[0] != b

    def less(self, a: Any, b: Any) -> Num:
        return self.k.broadcast_pair(a, b)[0] < b

    def less_equal(self, a: Any, b: Any) -> Num:
        return self.k.broadcast_pair(a, b)[0] <= b

    def greater(self, a: Any, b: Any) -> Num:
        return self.k.broadcast_pair(a, b)[0] > b

    def greater_equal(self, a: Any, b: Any) -> Num:
        return self.k.broadcast_pair(a, b)[0] >= b


def _dtype_name(dtype: Any) -> str:
    return dtype if isinstance(dtype, str) else str(dtype).rsplit(".", 1)[-1]


def trace_reference(
    k: KernelBuilder, body: Callable[..., Any], inputs: list[Num], attrs: dict[str, Any]
) -> tuple[Num, ...]:
    """The results of a reference implementation for these inputs, as values of the kernel."""
    try:
        result = body(TracingNamespace(k), *inputs, **attrs)
    except (TypeError, AttributeError, ValueError) as exc:  # the body needs arrays, not scalars
        raise UnsupportedError(str(exc)) from exc
    result = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(m, Num) for m in result):
        raise UnsupportedError("a result that is not a scalar value")
    return result
