"""How the weights of a layer are stored in another system: one table per system, read in both directions.

A table maps each class of layers to a function of the layer and its weights' shapes that returns `WeightLayout`s. A
`Transform` changes arrays to ours and back; none of them loses a bit, but for `Sum`, whose parts cannot be told apart
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.layers.base import Layer

__all__ = ["LayoutTable", "NotExpressibleError", "Transform", "WeightLayout"]

Arrays = tuple[np.ndarray, ...]


class NotExpressibleError(Exception):
    """A layer, or a field of it, that the other system does not have; the text is the reason."""


class Transform:
    """Arrays of the other system to ours and back; this one leaves them as they are. Subclasses say what they do."""

    def to_ours(self, arrays: Arrays) -> Arrays:
        """Our weights, from the other system's arrays in the order of `WeightLayout.theirs`."""
        return arrays

    def to_theirs(self, arrays: Arrays) -> Arrays:
        """The other system's arrays, from our weights in the order of `WeightLayout.ours`."""
        return arrays

    def __str__(self) -> str:
        """For reports ("transposed (1, 0)"); "" for none."""
        return ""


@dataclass(frozen=True)
class WeightLayout:
    """Some weights of a layer and where they are in the other system.

    ours: names of the layer's weights ("kernel"). theirs: names below the other system's layer ("weight"); several on
    either side where one is made of several.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    transform: Transform = field(default_factory=Transform)


LayoutFunction = Callable[[Any, Mapping[str, tuple[int, ...]]], Sequence[WeightLayout]]


class LayoutTable:
    """The layouts of one system: layer class -> layouts. Registering two for one class is an error."""

    def __init__(self, system: str):
        self.system = system
        self._functions: dict[type[Layer], LayoutFunction] = {}

    def register(self, *layers: type[Layer]) -> Callable[[LayoutFunction], LayoutFunction]:
        """Register a function ``(layer, shapes of its weights by name) -> layouts`` for these layer classes."""

        def register(function: LayoutFunction) -> LayoutFunction:
            for layer in layers:
                if layer in self._functions:
                    raise ValueError(f"{layer.__name__} has a layout in {self.system} already")
                self._functions[layer] = function
            return function

        return register

    def layouts(self, layer: Layer, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[WeightLayout]:
        """The layouts of a layer's weights; none for a layer without weights.

        Raises NotExpressibleError where the system has no such layer.
        """
        if not shapes:
            return ()
        function = self._functions.get(type(layer))
        if function is None:
            raise NotExpressibleError(f"{type(layer).__name__} has no counterpart in {self.system}")
        return function(layer, shapes)

    def knows(self, layer: type[Layer]) -> bool:
        """Whether the table has an entry for a layer class."""
        return layer in self._functions
