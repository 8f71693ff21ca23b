"""A function in the place of an activation: one of the package's functions stands for the layer of its name."""

from __future__ import annotations

import inspect
from typing import Any

from prototorch.schema.validation import ValidationError

__all__ = ["layer_of_function"]

#: arguments of functions whose value the layer's field has: the last axis
_AXES = ("dim", "axis")


def layer_of_function(function: Any, root: Any) -> Any:
    """The member of ``root`` that a function of the package is: `prototorch.relu`, ``nn.functional.relu``, ``ops.relu``
    and a tensor's method are `ReLU`.

    Raises ValidationError, with the function's file and line, for a function of the user's or another library, and for
    one that no activation is.
    """
    name = str(getattr(function, "name", None) or getattr(function, "__name__", ""))
    family = root.family_registry
    names = {n.lower().replace("_", ""): n for n in family.names() if family.has(n, root)}
    activation = names.get(name.lower().replace("_", ""))
    is_own = str(getattr(function, "__module__", "")).partition(".")[0] == "prototorch"
    if activation is None or not is_own or not _takes_one_value(function):
        hint = " Write the name of an activation, or put a layer of your own behind this one (docs/extending.md)."
        if activation is not None and not is_own:
            hint = f' Write "{activation}".'
        raise ValidationError(
            f"cannot be the function {name}{'' if is_own else _source_line(function)}: a text and an export hold "
            "activations by their names.",
            hint=hint,
            right_kind=True,
        )
    cls = family.find(activation)
    return cls(**cls.function_fields)


def _takes_one_value(function: Any) -> bool:
    """Whether a function can be called with one value, but for the axis."""
    try:
        parameters = list(inspect.signature(getattr(function, "infer_spec", function)).parameters.values())
    except (TypeError, ValueError):
        return True
    return all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name in _AXES
        for p in parameters[1:]
    )


def _source_line(function: Any) -> str:
    """The file and line where a Python function is defined, in brackets."""
    bytecode = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    return "" if bytecode is None else f" ({bytecode.co_filename}, line {bytecode.co_firstlineno})"
