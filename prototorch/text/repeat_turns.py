"""Names of outputs in the body of a ``repeat``: each turn has its own, so that several turns may give the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, CallBody, Field, If, ListValue, Repeat, Scalar

__all__ = ["RepeatTurns", "given_names", "rename_outputs"]


@dataclass(slots=True)
class RepeatTurns:
    """A ``repeat`` of several turns that is being expanded.

    prefix: of the names in its body. span: of the statement. names: those that its body gives in the text; of these
    ``always`` are those that every turn gives. outputs: by full name, what bears it in each turn that gave it.
    current: the full names that the present turn gave so far.
    """

    prefix: str
    span: Span | None
    names: frozenset[str]
    always: frozenset[str]
    outputs: dict[str, list[str]] = field(default_factory=dict)
    current: set[str] = field(default_factory=set)

    def owns(self, full: str) -> bool:
        """Whether a full name is one that the body gives."""
        return full.startswith(self.prefix) and full[len(self.prefix) :] in self.names


def given_names(statements: Sequence[Any]) -> tuple[frozenset[str], frozenset[str]]:
    """The names that the body of a ``repeat`` gives by ``=``, ``->`` or ``top``, and those that each turn gives."""
    every: set[str] = set()
    always: set[str] = set()
    waiting = [(s, True) for s in statements]
    while waiting:
        s, is_sure = waiting.pop()
        bodies: list[Body] = []
        if isinstance(s, Field):
            words = [word.text for word in s.outputs]
            body = s.value.body if isinstance(s.value, CallBody) else s.value
            if isinstance(s.value, CallBody):
                words += [text for a in s.value.arguments if a.name == "top" for text in _literals(a.value)]
            elif s.name == "top":
                words += _literals(s.value)
            every.update(words)
            if is_sure:
                always.update(words)
            bodies = [body] if isinstance(body, Body) else []
        elif isinstance(s, Repeat):
            bodies, is_sure = [s.body], False
        elif isinstance(s, If):
            bodies, is_sure = [b for _, b in s.arms] + ([s.else_body] if s.else_body is not None else []), False
        waiting.extend((inner, is_sure) for body in bodies for inner in body.statements)
    return frozenset(every), frozenset(always)


def _literals(value: Any) -> list[str]:
    items = value.items if isinstance(value, ListValue) else (value,)
    return [item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str)]


def rename_outputs(fields: list[Field], new_names: Mapping[str, str], start: int = 0) -> None:
    """Rename outputs of the layers from ``fields[start]`` on, and what reads them, in branches as well."""
    for number in range(start, len(fields)):
        layer = fields[number]
        if not isinstance(layer.value, Body):
            continue
        inside: list[Any] = list(layer.value.statements)
        for at, f in enumerate(inside):
            if not isinstance(f, Field):
                continue
            if f.name in ("top", "bottom"):
                value = _rename(f.value, new_names)
                inside[at] = f if value is f.value else replace(f, value=value)
            elif f.name == "branch" and isinstance(f.value, Body):
                layers = list(f.value.fields)
                rename_outputs(layers, new_names)
                if any(a is not b for a, b in zip(layers, f.value.fields, strict=True)):
                    inside[at] = replace(f, value=replace(f.value, statements=tuple(layers)))
        if any(a is not b for a, b in zip(inside, layer.value.statements, strict=True)):
            fields[number] = replace(layer, value=replace(layer.value, statements=tuple(inside)))


def _rename(value: Any, new_names: Mapping[str, str]) -> Any:
    if isinstance(value, ListValue):
        items = tuple(_rename(item, new_names) for item in value.items)
        same = all(a is b for a, b in zip(items, value.items, strict=True))
        return value if same else ListValue(items, value.span)
    if isinstance(value, Scalar) and value.value in new_names:
        return Scalar(new_names[str(value.value)], value.span)
    return value
