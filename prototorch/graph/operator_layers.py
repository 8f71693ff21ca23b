"""The layers that functions of symbolic tensors are in a net: ``x + y`` is an Add, ``2 * x`` a Rescaling.

A layer names its function (`Layer.symbolic_function`); what a function of a symbol and a number is stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import layers
from prototorch.base.index import entries
from prototorch.errors import UsageError
from prototorch.graph.symbolic_functions import SymbolicCall, is_symbolic

__all__ = ["as_layer_call"]

#: of a symbol and a number
_WITH_NUMBER: dict[str, Callable[[float], list[Any]]] = {
    "add": lambda n: [layers.Rescaling(1, offset=n)],
    "sub": lambda n: [layers.Rescaling(1, offset=-n)],
    "mul": lambda n: [layers.Rescaling(n)],
    "div": lambda n: [layers.Rescaling(1 / n)] if n else [],
    "pow": lambda n: [layers.Power(exponent=n)],
    "maximum": lambda n: [layers.ReLU() if n == 0 else layers.Clip(min=n)],
    "minimum": lambda n: [layers.Clip(max=n)],
}
#: of a number and a symbol
_WITH_FIRST_NUMBER: dict[str, Callable[[float], list[Any]]] = {
    "add": _WITH_NUMBER["add"],
    "mul": _WITH_NUMBER["mul"],
    "maximum": _WITH_NUMBER["maximum"],
    "minimum": _WITH_NUMBER["minimum"],
    "sub": lambda n: [layers.Rescaling(-1, offset=n)],
    "div": lambda n: [layers.Reciprocal(), layers.Rescaling(n)],
}


def as_layer_call(call: SymbolicCall) -> Any:
    """The symbol that layers give for a function call. Raises UsageError where no layer is this function."""
    args, chain = call.args, []
    if not call.options and args and all(map(is_symbolic, args)):
        layer = _layer_of_function(call.name.removeprefix("nn.functional."), len(args))
        if layer is not None:
            return layer(args[0] if len(args) == 1 else list(args))
    if not call.options and len(args) == 2 and is_symbolic(args[0]) and _is_number(args[1]):
        chain = _WITH_NUMBER.get(call.name, lambda n: [])(args[1])
    elif not call.options and len(args) == 2 and is_symbolic(args[1]) and _is_number(args[0]):
        chain = _WITH_FIRST_NUMBER.get(call.name, lambda n: [])(args[0])
        args = args[::-1]
    if not chain:
        raise UsageError(
            f"the function {call.name} of symbolic tensors is possible in a pt.Graph, and no layer of a net: use a "
            "layer for it, or a layer of your own, whose call computes with pt.ops (docs/extending.md)"
        )
    value = args[0]
    for layer in chain:
        value = layer(value)
    return value


def _layer_of_function(name: str, num_inputs: int) -> Any:
    """The layer that a function of so many symbols is; None: no layer is."""
    for entry in entries("layer"):
        if entry.facts.get("symbolic_function") == name:
            cls = entry.load()
            least, most = cls.inputs if isinstance(cls.inputs, tuple) else (cls.inputs, cls.inputs)
            if least <= num_inputs and (most is None or num_inputs <= most):
                return cls()
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
