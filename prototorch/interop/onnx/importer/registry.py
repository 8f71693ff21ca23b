"""The table of importers: an ONNX op -> the function that adds its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Importer", "NoLayerError", "imports", "registered"]

#: (builder, node) -> an operand, or a sequence of them, one for each output of the node
Importer = Callable[[Any, Any], Any]

_IMPORTERS: dict[str, Importer] = {}


class NoLayerError(Exception):
    """A node that no layer does; the text is the reason."""


def imports(*ops: str) -> Callable[[Importer], Importer]:
    """Register a function for these ops. Two for one op are an error."""

    def register(function: Importer) -> Importer:
        for op in ops:
            if op in _IMPORTERS:
                raise ValueError(f"{op} has an importer already")
            _IMPORTERS[op] = function
        return function

    return register


def registered() -> dict[str, Importer]:
    """The importers that are registered so far."""
    return _IMPORTERS
