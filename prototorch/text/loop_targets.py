"""The names that a ``repeat`` or a comprehension gives to each value: one name, or names of the parts of a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prototorch.text.operands import EvaluationError, render_value
from prototorch.text.source import Span

__all__ = ["LoopTarget", "bind_target"]


@dataclass(slots=True)
class LoopTarget:
    """``i``: ``name``; or ``(a, b)``: ``parts``, of which each is a target. ``_`` names a part that is not used."""

    name: str = ""
    parts: tuple[LoopTarget, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    def __iter__(self) -> Iterator[LoopTarget]:
        """The targets in it that are names."""
        if self.name:
            yield self
        for part in self.parts:
            yield from part

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(target.name for target in self)

    def duplicate_name(self) -> LoopTarget | None:
        """The target that bears the name of one before it; None where there is none."""
        seen: set[str] = set()
        for target in self:
            if target.name in seen:
                return target
            seen.add(target.name)
            seen.discard("_")
        return None

    def __str__(self) -> str:
        return self.name if not self.parts else "(" + ", ".join(map(str, self.parts)) + ")"


def bind_target(target: LoopTarget, value: Any, span: Span | None) -> dict[str, Any]:
    """The names with their values; raises EvaluationError at ``span``, the series, where the value has other parts."""
    if not target.parts:
        return {target.name: value}
    if not isinstance(value, list) or len(value) != len(target.parts):
        count = f"{len(value)} values" if isinstance(value, list) else "a list"
        has = f"has {count}" if isinstance(value, list) else f"is not {count}"
        message = f"{target} takes lists of {len(target.parts)} values; {render_value(value)} {has}."
        raise EvaluationError(message, span)
    names: dict[str, Any] = {}
    for part, item in zip(target.parts, value, strict=True):
        names.update(bind_target(part, item, span))
    return names
