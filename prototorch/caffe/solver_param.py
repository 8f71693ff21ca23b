"""The fields of a solver as attributes, for scripts of pycaffe."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.text.message import Message

__all__ = ["SolverParam"]


class SolverParam:
    """A SolverParameter: ``param.base_lr`` is the field's value or its default; ``param.base_lr = 0.1`` sets it, from
    the next iteration on."""

    __slots__ = ("_message",)

    def __init__(self, message: Message):
        object.__setattr__(self, "_message", message)

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_message")[name]
        except KeyError:
            raise AttributeError(f"SolverParameter has no field {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        message: Message = object.__getattribute__(self, "_message")
        if name not in message.type.fields:
            raise AttributeError(f"SolverParameter has no field {name!r}")
        message[name] = value

    def __dir__(self) -> list[str]:
        return sorted(object.__getattribute__(self, "_message").type.fields)
