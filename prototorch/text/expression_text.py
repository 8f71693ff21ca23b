"""Expressions as text: spaces around operators, no parentheses but those that are needed."""

from __future__ import annotations

from typing import Any

from . import expressions as ex
from .strings import escape, quote

_CHOOSE, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ITEM = range(1, 11)
_BINDING = {
    "or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT,
    "**": _POWER,
}  # fmt: skip


def expression_text(root: Any) -> str:
    """``$name``, ``$range(4)``, ``$(a + 1)`` or ``"conv_${i}"``."""
    if isinstance(root, ex.Template):
        return _inner(root)[0]
    if isinstance(root, ex.Name | ex.Call):
        return "$" + _inner(root)[0]
    return f"$({_inner(root)[0]})"


def _at(node: Any, least: int) -> str:
    """The text of a part, in parentheses where it binds less tightly than needed."""
    text, binding = _inner(node)
    return text if binding >= least else f"({text})"


def _inner(node: Any) -> tuple[str, int]:
    """The text of a node, and how tightly it binds."""
    if isinstance(node, ex.Literal):
        if isinstance(node.value, str):
            return quote(node.value), _ITEM
        return node.text if node.text is not None else repr(node.value), _ITEM
    if isinstance(node, ex.Name):
        return node.name, _ITEM
    if isinstance(node, ex.Unary):
        if node.operator == "not":
            return f"not {_at(node.operand, _NOT)}", _NOT
        return f"{node.operator}{_at(node.operand, _SIGN)}", _SIGN
    if isinstance(node, ex.Binary):
        binding = _BINDING[node.operator]
        left, right = (_ITEM, _SIGN) if node.operator == "**" else (binding, binding + 1)
        return f"{_at(node.left, left)} {node.operator} {_at(node.right, right)}", binding
    if isinstance(node, ex.Compare):
        rest = "".join(f" {sign} {_at(part, _SUM)}" for sign, part in node.rest)
        return _at(node.first, _SUM) + rest, _COMPARE
    if isinstance(node, ex.Choose):
        return f"{_at(node.yes, _OR)} if {_at(node.condition, _OR)} else {_at(node.no, _CHOOSE)}", _CHOOSE
    if isinstance(node, ex.Call):
        return f"{node.function}({', '.join(_at(a, _CHOOSE) for a in node.arguments)})", _ITEM
    if isinstance(node, ex.Index):
        return f"{_at(node.value, _ITEM)}[{_at(node.index, _CHOOSE)}]", _ITEM
    if isinstance(node, ex.Series):
        return f"[{', '.join(_at(i, _CHOOSE) for i in node.items)}]", _ITEM
    parts = (escape(p) if isinstance(p, str) else f"${{{_at(p, _CHOOSE)}}}" for p in node.parts)
    return '"' + "".join(parts) + '"', _ITEM
