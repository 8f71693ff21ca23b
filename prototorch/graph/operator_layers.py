"""The layers that operators on symbolic tensors are in a net: ``x + y`` is an Add, ``2 * x`` a Rescaling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import layers
from prototorch.errors import UsageError
from prototorch.graph.symbolic_functions import SymbolicCall, is_symbolic

__all__ = ["as_layer_call"]

#: of two symbols
_BINARY: dict[str, Callable[[], Any]] = {
    "add": layers.Add, "sub": layers.Subtract, "mul": layers.Multiply, "div": layers.Divide, "pow": layers.Power,
    "matmul": layers.MatMul, "remainder": layers.Mod, "maximum": layers.Maximum, "minimum": layers.Minimum,
    "lt": layers.Less, "le": layers.LessEqual, "gt": layers.Greater, "ge": layers.GreaterEqual, "eq": layers.Equal,
}  # fmt: skip
#: of a symbol and a number
_WITH_NUMBER: dict[str, Callable[[float], list[Any]]] = {
    "add": lambda n: [layers.Rescaling(1, offset=n)],
    "sub": lambda n: [layers.Rescaling(1, offset=-n)],
    "mul": lambda n: [layers.Rescaling(n)],
    "div": lambda n: [layers.Rescaling(1 / n)] if n else [],
    "pow": lambda n: [layers.Power(exponent=n)],
}
#: of a number and a symbol
_WITH_FIRST_NUMBER: dict[str, Callable[[float], list[Any]]] = {
    "add": _WITH_NUMBER["add"],
    "mul": _WITH_NUMBER["mul"],
    "sub": lambda n: [layers.Rescaling(-1, offset=n)],
    "div": lambda n: [layers.Reciprocal(), layers.Rescaling(n)],
}
_UNARY: dict[str, Callable[[], Any]] = {
    "neg": layers.Negative, "abs": layers.Abs, "exp": layers.Exponential, "log": layers.Log, "sqrt": layers.Sqrt,
    "square": layers.Square, "sin": layers.Sin, "cos": layers.Cos, "tanh": layers.Tanh, "sigmoid": layers.Sigmoid,
    "relu": layers.ReLU, "sign": layers.Sign, "floor": layers.Floor, "ceil": layers.Ceil, "round": layers.Round,
}  # fmt: skip


def as_layer_call(call: SymbolicCall) -> Any:
    """The symbol that layers give for a function call. Raises UsageError where no layer is this function."""
    args, number_fields = call.args, []
    if not call.options and len(args) == 2 and all(map(is_symbolic, args)) and call.name in _BINARY:
        return _BINARY[call.name]()(list(args))
    if not call.options and len(args) == 2 and is_symbolic(args[0]) and _is_number(args[1]):
        number_fields = _WITH_NUMBER.get(call.name, lambda n: [])(args[1])
    elif not call.options and len(args) == 2 and is_symbolic(args[1]) and _is_number(args[0]):
        number_fields = _WITH_FIRST_NUMBER.get(call.name, lambda n: [])(args[0])
        args = args[::-1]
    elif not call.options and len(args) == 1 and call.name in _UNARY:
        number_fields = [_UNARY[call.name]()]
    if not number_fields:
        raise UsageError(
            f"the function {call.name} of symbolic tensors is possible in a pt.Graph, and no layer of a net: use a "
            "layer for it, or a layer of your own, whose call computes with pt.ops (docs/extending.md)"
        )
    value = args[0]
    for layer in number_fields:
        value = layer(value)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
