"""Operators, methods and conversions of symbolic tensors.

An operator or a method is a function call that runs with the graph; what would need elements is an error that says what
to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from prototorch.errors import UsageError, did_you_mean, explain_word
from prototorch.graph.symbolic_functions import SYMBOLIC_FUNCTIONS, SymbolicCall

__all__ = ["SymbolicOperators"]

_RUN = "take graph(data) of a pt.Graph, model.predict(data) or model(data), for values"

#: NumPy's functions behind operators with an array on the left, ``array + symbol``
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "power": "pow",
    "matmul": "matmul", "floor_divide": "floor_divide", "remainder": "remainder", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax", "fmin": "fmin",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor", "arctan2": "arctan2",
    "hypot": "hypot", "logaddexp": "logaddexp", "fmod": "fmod", "float_power": "float_power", "copysign": "copysign",
}  # fmt: skip


def _operator(name: str, swap: bool = False):
    def method(self: Any, *others: Any) -> Any:
        return self.call_function(name, (*others, self) if swap else (self, *others), {})

    return method


def _conversion(what: str, hint: str):
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise UsageError(
            f"{what}: {self!r:.80} is a symbolic tensor, stands for a value of the net and has no elements: {hint}"
        )

    return method


class SymbolicOperators:
    """A mixin of operators and methods for symbolic tensors."""

    is_symbolic = True

    __add__, __radd__ = _operator("add"), _operator("add", swap=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swap=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", swap=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swap=True)
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", swap=True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", swap=True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", swap=True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", swap=True)
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")
    __neg__, __abs__, __getitem__ = _operator("neg"), _operator("abs"), _operator("getitem")
    __setitem__ = _conversion("x[...] = value", "a graph's values do not change; use pt.where")
    __iter__ = _conversion("a loop", "its length is not known yet: take x[0], x[1], ...")
    __contains__ = _conversion("in", "use `any(x is y for y in symbols)` to find one of several symbolic tensors")
    __len__ = _conversion("len()", "its shape is known when the graph runs, see model.summary()")
    __bool__ = _conversion("bool()", "compare with `is None`; a choice by elements is pt.where")
    __float__, __int__, __index__ = _conversion("float()", _RUN), _conversion("int()", _RUN), _conversion("int()", _RUN)
    __array__ = _conversion("a NumPy array", f"use the functions of prototorch (pt.exp) and layers, or {_RUN}")
    __array_function__ = _no_numpy_function = _conversion(
        "a NumPy function", "use the function of prototorch of that name (pt.exp), or a layer"
    )

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **options: Any) -> Any:
        name = _UFUNCS.get(ufunc.__name__, "")
        if not name or how != "__call__" or options:
            self._no_numpy_function()
        return self.call_function(name, inputs, {})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in SYMBOLIC_FUNCTIONS:
            hint = explain_word(name) or f".{did_you_mean(name, SYMBOLIC_FUNCTIONS)}"
            raise AttributeError(f"a symbolic tensor has no {name!r}, known when the graph runs or not at all{hint}")

        def method(*args: Any, **options: Any) -> Any:
            return self.call_function(name, (self, *args), options)

        return method

    @staticmethod
    def call_function(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The symbol of a function of symbols and other values; see `symbolic.SymbolicTensor`."""
        raise TypeError(f"a symbolic tensor defines call_function; got {SymbolicCall(name, args, options).title}")
