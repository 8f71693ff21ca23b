"""A module whose text shows some of its attributes."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.nn.module import Module

__all__ = ["FieldModule"]


class FieldModule(Module):
    """A module that `repr` shows with the attributes named in ``text_fields``, and with ``inplace`` where it is set."""

    text_fields: ClassVar[tuple[str, ...]] = ()
    inplace: Any

    def extra_repr(self) -> str:
        """See `Module.extra_repr`."""
        parts = [f"{name}={getattr(self, name)!r}" for name in self.text_fields]
        if self.__dict__.get("inplace"):
            parts.append("inplace=True")
        return ", ".join(parts)
