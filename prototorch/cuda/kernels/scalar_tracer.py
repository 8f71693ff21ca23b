"""Tracing of elementwise ops: their reference implementations, run once on symbolic scalars, become CUDA C++.

`ScalarTracer` takes the place of an array module. Its arrays are scalars with the line of C that computes them, so that
each formula is written once, in the op. float16 and bfloat16 are float32 to the reference implementations, and rounded
where they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import C_TYPES
from prototorch.ops.core import ArrayInterpreter, Op, use_interpreter

__all__ = ["ScalarTracer", "TracedScalar", "UntraceableError", "trace_op"]

_FLOATS = ("float32", "float64")


class UntraceableError(Exception):
    """An op that is not elementwise on scalars."""


class TracedScalar:
    """A scalar in the kernel: ``name`` is its name in C, ``dtype`` its type by NumPy's name."""

    __array_ufunc__ = None
    shape = ()
    ndim = 0
    size = 1

    def __init__(self, module: ScalarTracer, text: str, dtype: str):
        self.module, self.name, self.dtype = module, text, dtype

    def binary(self, sign: str, other: Any, swap: bool = False, dtype: str | None = None) -> TracedScalar:
        """``self sign other``, with ``swap`` ``other sign self``. dtype: of the result, by default that of the
        operands. Raises UntraceableError for an integer with a number that is none."""
        m = self.module
        if not isinstance(other, TracedScalar) and isinstance(other, float) and self.dtype not in _FLOATS:
            raise UntraceableError(f"{self.dtype} with the number {other}")
        b = m.as_scalar(other, self.dtype)
        kind = self.dtype
        if self.dtype != b.dtype:
            kind = str(np.promote_types(self.dtype, b.dtype))
        one, two = m.cast_expr(self, kind), m.cast_expr(b, kind)
        if swap:
            one, two = two, one
        if sign in "+-*/&|^" or sign in ("<", "<=", "==", "!="):
            return m.emit(f"{one} {sign} {two}", dtype or kind)
        return m.emit(f"{sign}({one}, {two})", dtype or kind)

    def __add__(self, o):
        return self.binary("+", o)

    def __radd__(self, o):
        return self.binary("+", o, True)

    def __sub__(self, o):
        return self.binary("-", o)

    def __rsub__(self, o):
        return self.binary("-", o, True)

    def __mul__(self, o):
        return self.binary("*", o)

    def __rmul__(self, o):
        return self.binary("*", o, True)

    def __truediv__(self, o):
        return self.binary("/", o)

    def __rtruediv__(self, o):
        return self.binary("/", o, True)

    def __mod__(self, o):
        return self.binary("floor_mod", o)

    def __pow__(self, o):
        return self.binary("pow_of", o)

    def __rpow__(self, o):
        return self.binary("pow_of", o, True)

    def __and__(self, o):
        return self.binary("&", o)

    def __or__(self, o):
        return self.binary("|", o)

    def __lt__(self, o):
        return self.binary("<", o, dtype="bool")

    def __le__(self, o):
        return self.binary("<=", o, dtype="bool")

    def __gt__(self, o):
        return self.binary("<", o, True, dtype="bool")

    def __ge__(self, o):
        return self.binary("<=", o, True, dtype="bool")

    def __eq__(self, o):
        return self.binary("==", o, dtype="bool")

    def __ne__(self, o):
        return self.binary("!=", o, dtype="bool")

    __hash__ = object.__hash__

    def __bool__(self):
        raise UntraceableError("a branch on the value of an element")

    def __neg__(self):
        return self.module.emit(f"-{self.name}", self.dtype)

    def __invert__(self):
        return self.module.emit(f"!{self.name}" if self.dtype == "bool" else f"~{self.name}", self.dtype)


class ScalarTracer:
    """The array module of traced scalars; ``lines`` is the C generated so far."""

    bool, uint8, int8, int16, uint16 = "bool", "uint8", "int8", "int16", "uint16"
    int32, uint32, int64, uint64 = "int32", "uint32", "int64", "uint64"
    float16, bfloat16, float32, float64 = "float16", "bfloat16", "float32", "float64"

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scalar_of_expr: dict[tuple[str, str], TracedScalar] = {}

    def compute_c_type(self, dtype: str) -> str:
        """The C type in which values of a dtype are computed."""
        return C_TYPES[self.compute_dtype(str(dtype))]

    def compute_dtype(self, dtype: str) -> str:
        """The dtype in which elements of a dtype are computed."""
        return "float32" if dtype in ("float16", "bfloat16") else dtype

    def emit(self, text: str, dtype: str) -> TracedScalar:
        """A new scalar; the same one for the same expression."""
        scalar = self.scalar_of_expr.get((text, dtype))
        if scalar is None:
            name = f"v{len(self.scalar_of_expr)}"
            self.lines.append(f"{self.compute_c_type(dtype)} {name} = {text};")
            scalar = self.scalar_of_expr[text, dtype] = TracedScalar(self, name, dtype)
        return scalar

    def as_scalar(self, value: Any, like: str) -> TracedScalar:
        """A Python number as a scalar of the dtype of its context."""
        if isinstance(value, TracedScalar):
            return value
        if getattr(value, "shape", ()) != ():
            raise UntraceableError("an array")
        if hasattr(value, "dtype"):
            like = str(value.dtype)
        like = self.compute_dtype(like)
        return TracedScalar(self, self.literal(value.item() if hasattr(value, "item") else value, like), like)

    def literal(self, value: Any, dtype: str) -> str:
        """A constant in C."""
        kind = self.compute_c_type(dtype)
        if kind in ("float", "double"):
            value = float(value)
            if math.isnan(value):
                return "NOT_A_NUMBER"
            if math.isinf(value):
                return "INF" if value > 0 else "(-INF)"
            if kind == "float":
                with np.errstate(over="ignore"):
                    value = float(np.float32(value))
                if math.isinf(value):
                    return "INF" if value > 0 else "(-INF)"
            text = repr(value) + ("f" if kind == "float" else "")
            return f"({text})" if value < 0 else text
        if dtype == "bool":
            return "true" if value else "false"
        return f"({kind}){int(value)}" + ("ull" if kind == "u64" else "ll" if kind == "i64" else "")

    def cast_expr(self, value: TracedScalar, dtype: str) -> str:
        """A scalar, cast to another dtype, in C."""
        a, b = self.compute_c_type(value.dtype), self.compute_c_type(dtype)
        return value.name if a == b else f"({b}){value.name}"

    def astype(self, x: TracedScalar, dtype: Any) -> TracedScalar:
        dtype = str(dtype)
        if dtype == x.dtype:
            return x
        if dtype in ("float16", "bfloat16"):
            return self.emit(f"rounded_{C_TYPES[dtype]}((float){x.name})", "float32")
        if dtype == "bool":
            return self.emit(f"{x.name} != 0", dtype)
        return self.emit(f"({self.compute_c_type(dtype)}){x.name}", dtype)

    def asarray(self, value: Any, dtype: Any = None) -> TracedScalar:
        if isinstance(value, TracedScalar):
            return value if dtype is None else self.astype(value, dtype)
        array = np.asarray(value)
        if array.size != 1:
            raise UntraceableError("a constant array")
        return self.as_scalar(array.reshape(()).item(), self.compute_dtype(str(dtype or array.dtype)))

    def full(self, shape: Any, value: Any, dtype: Any = None) -> TracedScalar:
        return self.asarray(value, dtype)

    def zeros(self, shape: Any, dtype: Any = None) -> TracedScalar:
        return self.asarray(0, dtype or "float64")

    def ones(self, shape: Any, dtype: Any = None) -> TracedScalar:
        return self.asarray(1, dtype or "float64")

    def reshape(self, x: TracedScalar, shape: Any) -> TracedScalar:
        return x

    def broadcast_to(self, x: TracedScalar, shape: Any) -> TracedScalar:
        return x

    def where(self, c: TracedScalar, a: Any, b: Any) -> TracedScalar:
        like = a.dtype if isinstance(a, TracedScalar) else b.dtype
        a, b = self.as_scalar(a, like), self.as_scalar(b, like)
        return self.emit(f"{c.name} ? {a.name} : {b.name}", a.dtype)

    def logical_not(self, x: TracedScalar) -> TracedScalar:
        return self.emit(f"!{x.name}", "bool")

    def logical_and(self, a: TracedScalar, b: TracedScalar) -> TracedScalar:
        return self.emit(f"{a.name} && {b.name}", "bool")

    def logical_or(self, a: TracedScalar, b: TracedScalar) -> TracedScalar:
        return self.emit(f"{a.name} || {b.name}", "bool")

    def isfinite(self, x: TracedScalar) -> TracedScalar:
        return self.emit(f"is_finite({x.name})" if x.dtype in _FLOATS else "true", "bool")

    def isnan(self, x: TracedScalar) -> TracedScalar:
        return self.emit(f"is_nan({x.name})", "bool")

    def square(self, x: TracedScalar) -> TracedScalar:
        return x * x

    def negative(self, x: TracedScalar) -> TracedScalar:
        return -x

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY:
            one, two = _UNARY[name]

            def unary(x: TracedScalar) -> TracedScalar:
                if x.dtype not in _FLOATS and name not in ("abs", "sign"):
                    raise UntraceableError(f"{name} of {x.dtype}")
                return self.emit(f"{one if self.compute_c_type(x.dtype) != 'double' else two}({x.name})", x.dtype)

            return unary
        if name in _BINARY:
            sign, result = _BINARY[name]
            return lambda a, b: (
                a.binary(sign, b, dtype=result)
                if isinstance(a, TracedScalar)
                else self.as_scalar(a, b.dtype).binary(sign, b, dtype=result)
            )
        raise UntraceableError(name)


#: the array module's name -> C for float, for double
_UNARY = {
    "exp": ("expf", "exp"), "expm1": ("expm1f", "expm1"), "log": ("logf", "log"), "log1p": ("log1pf", "log1p"),
    "sqrt": ("sqrtf", "sqrt"), "abs": ("abs_of", "abs_of"), "sign": ("sign", "sign"),
    "floor": ("floorf", "floor"), "ceil": ("ceilf", "ceil"), "round": ("rintf", "rint"), "tanh": ("tanhf", "tanh"),
    "sin": ("sinf", "sin"), "cos": ("cosf", "cos"), "tan": ("tanf", "tan"), "asin": ("asinf", "asin"),
    "acos": ("acosf", "acos"), "atan": ("atanf", "atan"), "sinh": ("sinhf", "sinh"), "cosh": ("coshf", "cosh"),
    "asinh": ("asinhf", "asinh"), "acosh": ("acoshf", "acosh"), "atanh": ("atanhf", "atanh"),
    "log2": ("log2f", "log2"), "log10": ("log10f", "log10"), "trunc": ("truncf", "trunc"),
}  # fmt: skip
#: the array module's name -> C, and the result's type where it is not the inputs'
_BINARY = {
    "add": ("+", None), "subtract": ("-", None), "multiply": ("*", None), "divide": ("/", None),
    "floor_divide": ("floor_div", None), "remainder": ("floor_mod", None), "pow": ("pow_of", None),
    "maximum": ("max_nan", None), "minimum": ("min_nan", None), "less": ("<", "bool"), "less_equal": ("<=", "bool"),
    "equal": ("==", "bool"), "not_equal": ("!=", "bool"),
}  # fmt: skip


def trace_op(
    op: Op, module: ScalarTracer, inputs: Sequence[TracedScalar], attrs: dict[str, Any]
) -> tuple[TracedScalar, ...]:
    """The outputs of an op for traced scalars. Raises UntraceableError for an op that is not elementwise."""
    try:
        with use_interpreter(ArrayInterpreter(module)):
            out = op.reference(module, *inputs, **attrs)
    except (AttributeError, TypeError, ValueError, IndexError) as e:
        raise UntraceableError(f"{op.name}: {e}") from e
    return out if isinstance(out, tuple) else (out,)
