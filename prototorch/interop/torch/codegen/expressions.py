"""Expressions of PyTorch that are written down instead of being computed.

What a layer computes is one Python function of tensors (see `TorchLayer`). Called with tensors it computes; called
with a `SourceExpression` for each of them it gives the source text of what it computes. No text of a model becomes
code: literals are numbers and strings in quotes, and names are made of letters, digits and underscores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["SourceExpression", "literal"]


class SourceExpression:
    """A piece of source text that stands for a value. ``is_atom``: it needs no brackets as an operand."""

    __slots__ = ("is_atom", "text")

    def __init__(self, text: str, is_atom: bool = True):
        self.text, self.is_atom = text, is_atom

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<SourceExpression {self.text}>"

    def __bool__(self) -> bool:
        raise TypeError("a written expression has no value: a layer's function must not branch on tensors")

    __hash__ = object.__hash__

    @property
    def operand(self) -> str:
        """The text, in brackets where it needs them."""
        return self.text if self.is_atom else f"({self.text})"

    def __getattr__(self, name: str) -> SourceExpression:
        if name.startswith("__"):
            raise AttributeError(name)
        return SourceExpression(f"{self.operand}.{name}")

    def __call__(self, *args: Any, **options: Any) -> SourceExpression:
        parts = [literal(a) for a in args] + [f"{name}={literal(value)}" for name, value in options.items()]
        return SourceExpression(f"{self.operand}({', '.join(parts)})")

    def __getitem__(self, key: Any) -> SourceExpression:
        keys = key if isinstance(key, tuple) else (key,)
        return SourceExpression(f"{self.operand}[{', '.join(map(_index, keys))}]")

    def __neg__(self) -> SourceExpression:
        return SourceExpression(f"-{self.operand}", False)

    def __invert__(self) -> SourceExpression:
        return SourceExpression(f"~{self.operand}", False)

    def __eq__(self, other: Any) -> SourceExpression:  # type: ignore[override]
        return _binary(self, "==", other)

    def __ne__(self, other: Any) -> SourceExpression:  # type: ignore[override]
        return _binary(self, "!=", other)


def _binary(a: Any, sign: str, b: Any) -> SourceExpression:
    return SourceExpression(f"{_operand(a)} {sign} {_operand(b)}", False)


def _operand(value: Any) -> str:
    return value.operand if isinstance(value, SourceExpression) else literal(value)


def _index(key: Any) -> str:
    if not isinstance(key, slice):
        return "..." if key is Ellipsis else literal(key)
    start, stop, step = ("" if n is None else literal(n) for n in (key.start, key.stop, key.step))
    return f"{start}:{stop}" + (f":{step}" if step else "")


def _operator(sign: str) -> tuple[Any, Any]:
    return (lambda self, other: _binary(self, sign, other)), (lambda self, other: _binary(other, sign, self))


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "pow": "**", "matmul": "@", "mod": "%",
          "and": "&", "or": "|", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}  # fmt: skip
for _name, _sign in _SIGNS.items():
    _forward, _backward = _operator(_sign)
    setattr(SourceExpression, f"__{_name}__", _forward)
    if _name not in ("lt", "le", "gt", "ge"):
        setattr(SourceExpression, f"__r{_name}__", _backward)


def literal(value: Any) -> str:
    """Python's text of an expression, a number, a string, None, or a list or tuple of them. TypeError for others."""
    if isinstance(value, SourceExpression):
        return value.text
    if value is None or isinstance(value, bool | str):
        return ascii(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, tuple):
        return _bracketed(value, "()")
    if isinstance(value, list):
        return _bracketed(value, "[]")
    raise TypeError(f"no literal of Python: {type(value).__name__}")


def _bracketed(values: Sequence[Any], brackets: str) -> str:
    inside = ", ".join(map(literal, values))
    return f"{brackets[0]}{inside}{',' if len(values) == 1 and brackets == '()' else ''}{brackets[1]}"
