"""Expressions as text: spaces around operators, no parentheses but those that are needed."""

from __future__ import annotations

from typing import Any

from prototorch.text import expressions as ex
from prototorch.text.string_literals import escape, quote

_CONDITIONAL, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ITEM = range(1, 11)
_BINDING = {
    "or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT,
    "**": _POWER,
}  # fmt: skip


def format_expression(root: Any) -> str:
    """``$name``, ``$range(4)``, ``$(a + 1)`` or ``"conv_${i}"``."""
    if isinstance(root, ex.TemplateString):
        return _format_node(root)[0]
    if isinstance(root, ex.Name | ex.FunctionCall):
        return "$" + _format_node(root)[0]
    return f"$({_format_node(root)[0]})"


def _wrap(node: Any, least: int) -> str:
    """The text of a part, in parentheses where it binds less tightly than needed."""
    text, binding = _format_node(node)
    return text if binding >= least else f"({text})"


def _format_loop(loop: ex.Loop) -> str:
    conditions = "".join(f" if {_wrap(c, _OR)}" for c in loop.conditions)
    return f" for {loop.target} in {_wrap(loop.series, _OR)}{conditions}"


def _format_node(node: Any) -> tuple[str, int]:
    """The text of a node, and how tightly it binds."""
    if isinstance(node, ex.Literal):
        if isinstance(node.value, str):
            return quote(node.value), _ITEM
        return node.text if node.text is not None else repr(node.value), _ITEM
    if isinstance(node, ex.Name):
        return node.name, _ITEM
    if isinstance(node, ex.UnaryExpression):
        if node.operator == "not":
            return f"not {_wrap(node.operand, _NOT)}", _NOT
        return f"{node.operator}{_wrap(node.operand, _SIGN)}", _SIGN
    if isinstance(node, ex.BinaryExpression):
        binding = _BINDING[node.operator]
        left, right = (_ITEM, _SIGN) if node.operator == "**" else (binding, binding + 1)
        return f"{_wrap(node.left, left)} {node.operator} {_wrap(node.right, right)}", binding
    if isinstance(node, ex.Compare):
        rest = "".join(f" {sign} {_wrap(part, _SUM)}" for sign, part in node.rest)
        return _wrap(node.first, _SUM) + rest, _COMPARE
    if isinstance(node, ex.Conditional):
        return (
            f"{_wrap(node.yes, _OR)} if {_wrap(node.condition, _OR)} else {_wrap(node.no, _CONDITIONAL)}",
            _CONDITIONAL,
        )
    if isinstance(node, ex.FunctionCall):
        return f"{node.function}({', '.join(_wrap(a, _CONDITIONAL) for a in node.arguments)})", _ITEM
    if isinstance(node, ex.Subscript):
        return f"{_wrap(node.value, _ITEM)}[{_wrap(node.index, _CONDITIONAL)}]", _ITEM
    if isinstance(node, ex.SliceExpression):
        bounds = ["" if b is None else _wrap(b, _CONDITIONAL) for b in (node.start, node.stop, node.step)]
        return f"{_wrap(node.value, _ITEM)}[{':'.join(bounds if node.step is not None else bounds[:2])}]", _ITEM
    if isinstance(node, ex.Comprehension):
        loops = "".join(map(_format_loop, node.loops))
        return f"[{_wrap(node.element, _CONDITIONAL)}{loops}]", _ITEM
    if isinstance(node, ex.ListExpression):
        return f"[{', '.join(_wrap(i, _CONDITIONAL) for i in node.items)}]", _ITEM
    parts = (escape(p) if isinstance(p, str) else f"${{{_wrap(p, _CONDITIONAL)}}}" for p in node.parts)
    return '"' + "".join(parts) + '"', _ITEM
