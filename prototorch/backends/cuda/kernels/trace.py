"""The plain bodies of elementwise ops, run once on symbols: what they compute becomes CUDA C++.

`Symbols` stands in for an array module. Its arrays are scalars known by the line of C that makes them, so that each
formula is said in one place, the op. float16 and bfloat16 are float32 to the bodies, and rounded where they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.launch import C_TYPES
from prototorch.ops.core import Arrays, Op, interpreting

_FLOATS = ("float32", "float64")


class Untraceable(Exception):
    """A body that does not compute element by element."""


class Symbol:
    """A number in the kernel: ``text`` names it, ``dtype`` is its type by NumPy's name."""

    __array_ufunc__ = None
    shape = ()
    ndim = 0
    size = 1

    def __init__(self, module: Symbols, text: str, dtype: str):
        self.module, self.text, self.dtype = module, text, dtype

    def _with(self, sign: str, other: Any, swap: bool = False, dtype: str | None = None) -> Symbol:
        m = self.module
        if not isinstance(other, Symbol) and isinstance(other, float) and self.dtype not in _FLOATS:
            raise Untraceable(f"{self.dtype} with the number {other}")
        b = m.lift(other, self.dtype)
        kind = self.dtype
        if self.dtype != b.dtype:
            kind = str(np.promote_types(self.dtype, b.dtype))
        one, two = m.converted(self, kind), m.converted(b, kind)
        if swap:
            one, two = two, one
        if sign in "+-*/&|^" or sign in ("<", "<=", "==", "!="):
            return m.made(f"{one} {sign} {two}", dtype or kind)
        return m.made(f"{sign}({one}, {two})", dtype or kind)

    def __add__(self, o):
        return self._with("+", o)

    def __radd__(self, o):
        return self._with("+", o, True)

    def __sub__(self, o):
        return self._with("-", o)

    def __rsub__(self, o):
        return self._with("-", o, True)

    def __mul__(self, o):
        return self._with("*", o)

    def __rmul__(self, o):
        return self._with("*", o, True)

    def __truediv__(self, o):
        return self._with("/", o)

    def __rtruediv__(self, o):
        return self._with("/", o, True)

    def __mod__(self, o):
        return self._with("floor_rest", o)

    def __pow__(self, o):
        return self._with("power_of", o)

    def __rpow__(self, o):
        return self._with("power_of", o, True)

    def __and__(self, o):
        return self._with("&", o)

    def __or__(self, o):
        return self._with("|", o)

    def __lt__(self, o):
        return self._with("<", o, dtype="bool")

    def __le__(self, o):
        return self._with("<=", o, dtype="bool")

    def __gt__(self, o):
        return self._with("<", o, True, dtype="bool")

    def __ge__(self, o):
        return self._with("<=", o, True, dtype="bool")

    def __neg__(self):
        return self.module.made(f"-{self.text}", self.dtype)

    def __invert__(self):
        return self.module.made(f"!{self.text}" if self.dtype == "bool" else f"~{self.text}", self.dtype)


class Symbols:
    """The array module of symbols; ``lines`` is the C that has come together."""

    bool, uint8, int8, int16, uint16 = "bool", "uint8", "int8", "int16", "uint16"
    int32, uint32, int64, uint64 = "int32", "uint32", "int64", "uint64"
    float16, bfloat16, float32, float64 = "float16", "bfloat16", "float32", "float64"

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[tuple[str, str], Symbol] = {}

    def kind(self, dtype: str) -> str:
        """The C type that values of a type are computed in."""
        return C_TYPES[self.computed(str(dtype))]

    def computed(self, dtype: str) -> str:
        """The type that elements of a type are computed in, by NumPy's name."""
        return "float32" if dtype in ("float16", "bfloat16") else dtype

    def made(self, text: str, dtype: str) -> Symbol:
        """A new value; the same one for the same expression."""
        found = self.known.get((text, dtype))
        if found is None:
            name = f"v{len(self.known)}"
            self.lines.append(f"{self.kind(dtype)} {name} = {text};")
            found = self.known[text, dtype] = Symbol(self, name, dtype)
        return found

    def lift(self, value: Any, like: str) -> Symbol:
        """A Python number as a value of the type around it."""
        if isinstance(value, Symbol):
            return value
        if getattr(value, "shape", ()) != ():
            raise Untraceable("an array")
        if hasattr(value, "dtype"):
            like = str(value.dtype)
        like = self.computed(like)
        return Symbol(self, self.literal(value.item() if hasattr(value, "item") else value, like), like)

    def literal(self, value: Any, dtype: str) -> str:
        """A number in C."""
        kind = self.kind(dtype)
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

    def converted(self, value: Symbol, dtype: str) -> str:
        """A value's text in another type."""
        a, b = self.kind(value.dtype), self.kind(dtype)
        return value.text if a == b else f"({b}){value.text}"

    def astype(self, x: Symbol, dtype: Any) -> Symbol:
        dtype = str(dtype)
        if dtype == x.dtype:
            return x
        if dtype in ("float16", "bfloat16"):
            return self.made(f"rounded_{C_TYPES[dtype]}((float){x.text})", "float32")
        if dtype == "bool":
            return self.made(f"{x.text} != 0", dtype)
        return self.made(f"({self.kind(dtype)}){x.text}", dtype)

    def asarray(self, value: Any, dtype: Any = None) -> Symbol:
        if isinstance(value, Symbol):
            return value if dtype is None else self.astype(value, dtype)
        array = np.asarray(value)
        if array.size != 1:
            raise Untraceable("a constant array")
        return self.lift(array.reshape(()).item(), self.computed(str(dtype or array.dtype)))

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Symbol:
        return self.asarray(value, dtype)

    def zeros(self, shape: Any, dtype: Any = None) -> Symbol:
        return self.asarray(0, dtype or "float64")

    def ones(self, shape: Any, dtype: Any = None) -> Symbol:
        return self.asarray(1, dtype or "float64")

    def reshape(self, x: Symbol, shape: Any) -> Symbol:
        return x

    def broadcast_to(self, x: Symbol, shape: Any) -> Symbol:
        return x

    def where(self, c: Symbol, a: Any, b: Any) -> Symbol:
        like = a.dtype if isinstance(a, Symbol) else b.dtype
        a, b = self.lift(a, like), self.lift(b, like)
        return self.made(f"{c.text} ? {a.text} : {b.text}", a.dtype)

    def logical_not(self, x: Symbol) -> Symbol:
        return self.made(f"!{x.text}", "bool")

    def logical_and(self, a: Symbol, b: Symbol) -> Symbol:
        return self.made(f"{a.text} && {b.text}", "bool")

    def logical_or(self, a: Symbol, b: Symbol) -> Symbol:
        return self.made(f"{a.text} || {b.text}", "bool")

    def isfinite(self, x: Symbol) -> Symbol:
        return self.made(f"is_finite({x.text})" if x.dtype in _FLOATS else "true", "bool")

    def isnan(self, x: Symbol) -> Symbol:
        return self.made(f"is_nan({x.text})", "bool")

    def square(self, x: Symbol) -> Symbol:
        return x * x

    def negative(self, x: Symbol) -> Symbol:
        return -x

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY:
            one, two = _UNARY[name]

            def unary(x: Symbol) -> Symbol:
                if x.dtype not in _FLOATS and name not in ("abs", "sign"):
                    raise Untraceable(f"{name} of {x.dtype}")
                return self.made(f"{one if self.kind(x.dtype) != 'double' else two}({x.text})", x.dtype)

            return unary
        if name in _BINARY:
            sign, result = _BINARY[name]
            return lambda a, b: (
                a._with(sign, b, dtype=result)
                if isinstance(a, Symbol)
                else self.lift(a, b.dtype)._with(sign, b, dtype=result)
            )
        raise Untraceable(name)


#: the array module's name -> C for float, for double
_UNARY = {
    "exp": ("expf", "exp"), "expm1": ("expm1f", "expm1"), "log": ("logf", "log"), "log1p": ("log1pf", "log1p"),
    "sqrt": ("sqrtf", "sqrt"), "abs": ("size_of", "size_of"), "sign": ("sign_of", "sign_of"),
    "floor": ("floorf", "floor"), "ceil": ("ceilf", "ceil"), "round": ("rintf", "rint"), "tanh": ("tanhf", "tanh"),
    "sin": ("sinf", "sin"), "cos": ("cosf", "cos"),
}  # fmt: skip
#: the array module's name -> C, and the result's type where it is not the inputs'
_BINARY = {
    "add": ("+", None), "subtract": ("-", None), "multiply": ("*", None), "divide": ("/", None),
    "floor_divide": ("floor_quotient", None), "remainder": ("floor_rest", None), "pow": ("power_of", None),
    "maximum": ("larger", None), "minimum": ("smaller", None), "less": ("<", "bool"), "less_equal": ("<=", "bool"),
    "equal": ("==", "bool"), "not_equal": ("!=", "bool"),
}  # fmt: skip


def traced(op: Op, module: Symbols, inputs: Sequence[Symbol], attrs: dict[str, Any]) -> tuple[Symbol, ...]:
    """What an op gives for symbols. Raises Untraceable for an op that is not elementwise."""
    try:
        with interpreting(Arrays(module)):
            out = op.plain(module, *inputs, **attrs)
    except (AttributeError, TypeError, ValueError, IndexError) as e:
        raise Untraceable(f"{op.name}: {e}") from e
    return out if isinstance(out, tuple) else (out,)
