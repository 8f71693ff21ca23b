"""How the weights of a layer are stored in another system: one table per system, read in both directions.

A table maps each class of layers to a function of the layer and its weights' shapes that returns `WeightLayout`s. A
table at the top of a module is found by the name of its system.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prototorch.base.index import Extension, entries
from prototorch.graph.net import Net
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.transforms import Transform
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["LayoutTable", "NotExpressibleError", "Transform", "WeightLayout", "layout_table"]

Shapes = Mapping[str, tuple[int, ...]]


class NotExpressibleError(Exception):
    """A layer, or a field of it, that the other system does not have; the text is the reason."""


@dataclass(frozen=True)
class WeightLayout:
    """Some weights of a layer and where they are in the other system.

    ours: names of the layer's weights ("kernel"); none for arrays that only the other system has (`NeutralArray`,
    `IgnoredArray` of `layout.transforms`), which a file may lack. theirs: names below the other system's layer
    ("weight"), "" for an array that has the layer's own name; several on either side where one is made of
    several. The layouts of a layer are in the other system's order of its arrays.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    transform: Transform = field(default_factory=Transform)

    def under(self, ours: str = "", theirs: str = "") -> WeightLayout:
        """The same layout with these texts in front of all names: that of a layer inside another."""
        return replace(self, ours=tuple(ours + n for n in self.ours), theirs=tuple(theirs + n for n in self.theirs))

    def their_shapes(self, shapes: Shapes) -> tuple[tuple[int, ...], ...]:
        """The shapes of `theirs` for the shapes of the layer's weights."""
        return self.transform.their_shapes([shapes[name] for name in self.ours])


LayoutFunction = Callable[[Any, Shapes], Sequence[WeightLayout]]
NetLayoutFunction = Callable[["LayoutTable", Net, Shapes, Mapping[str, str]], Mapping[str, Sequence[WeightLayout]]]
FileAdapter = Callable[[WeightFile, Container[str]], WeightFile]


class LayoutTable(Extension):
    """The layouts of one system: layer class -> layouts. Registering two for one class is an error.

    separator: what divides the names of layers and weights in that system. split_name: the parts of an array's name,
    by default those between ``.`` and ``/``. ignored: last parts of the names of arrays that change no output.
    has_shared_names: whether files of other systems, too, have its names for arrays in other layouts (``weight``), so
    that names alone do not tell this system. vocabularies: other tables under whose names files may have the arrays.
    net_layouts: the function of the method of this name, with the table as its first argument. adapt_file: that of the
    method of this name.
    """

    def __init__(
        self,
        system: str,
        separator: str = ".",
        split_name: Callable[[str], tuple[str, ...]] | None = None,
        ignored: tuple[str, ...] = (),
        has_shared_names: bool = False,
        net_layouts: NetLayoutFunction | None = None,
        adapt_file: FileAdapter | None = None,
    ):
        self.system = system
        self.separator = separator
        self.split_name = split_name or _split_name
        self.ignored = ignored
        self.has_shared_names = has_shared_names
        self.vocabularies: tuple[LayoutTable, ...] = ()
        self._functions: dict[type[Layer], LayoutFunction] = {}
        self._net_function = net_layouts
        self._file_adapter = adapt_file

    def with_names_of(self, others: Iterable[LayoutTable]) -> LayoutTable:
        """The same layouts for files that may also have the names of other tables."""
        table = copy.copy(self)
        table.vocabularies = tuple(other for other in others if other.system != self.system)
        table.ignored = tuple(dict.fromkeys((*self.ignored, *(n for o in table.vocabularies for n in o.ignored))))
        return table

    def register(self, *layers: type[Layer]) -> Callable[[LayoutFunction], LayoutFunction]:
        """Register a function ``(layer, shapes of its weights by name) -> layouts`` for these layer classes."""

        def register(function: LayoutFunction) -> LayoutFunction:
            for layer in layers:
                if layer in self._functions:
                    raise ValueError(f"{layer.__name__} has a layout in {self.system} already")
                self._functions[layer] = function
            return function

        return register

    def net_layouts(
        self, net: Net, shapes: Shapes, metadata: Mapping[str, str]
    ) -> Mapping[str, Sequence[WeightLayout]]:
        """The layouts that follow from a layer's place in its net, by the names of its nodes; they replace those of
        `layouts`. (Dense after Flatten, where the other system has channels last.)

        shapes: of all weights of the net by name. metadata: of the file, see `WeightFile`.
        """
        return {} if self._net_function is None else self._net_function(self, net, shapes, metadata)

    def adapt_file(self, file: WeightFile, layers: Container[str]) -> WeightFile:
        """A file of the system with the layers that nets of ours have in the place of several of its own; layers: the
        names of those with weights in the net."""
        return file if self._file_adapter is None else self._file_adapter(file, layers)

    def layouts(self, layer: Layer, shapes: Shapes) -> Sequence[WeightLayout]:
        """The layouts of a layer's weights; none for a layer without weights.

        shapes: of its weights by their names below the layer; those of an activation with weights of its own
        (``activation/alpha``) get the layouts of that layer, under the name ``activation``.
        Raises NotExpressibleError where the system has no such layer.
        """
        if not shapes:
            return ()
        function = self.find(type(layer))
        if function is None:
            raise NotExpressibleError(f"{type(layer).__name__} has no counterpart in {self.system}")
        return self._with_activations(function, layer, shapes)

    def variants(self, layer: Layer, shapes: Shapes) -> Iterator[Sequence[WeightLayout]]:
        """All forms in which a file may have the layer's weights, that of `layouts` first."""
        reason = None
        try:
            yield self.layouts(layer, shapes)
        except NotExpressibleError as error:
            reason = error
        for function in self.find_variants(type(layer)):
            try:
                yield self._with_activations(function, layer, shapes)
                reason = None
            except NotExpressibleError:
                continue
        if reason is not None:
            raise reason

    def knows(self, layer: type[Layer]) -> bool:
        """Whether the table has an entry for a layer class."""
        return self.find(layer) is not None

    def find(self, layer: type[Layer]) -> LayoutFunction | None:
        """The function of a layer class; None where the system has no counterpart of it."""
        return self._functions.get(layer)

    def find_variants(self, layer: type[Layer]) -> Sequence[LayoutFunction]:
        """The functions of the further forms of a layer class, which are only read."""
        return ()

    def to_theirs(self, layer: Layer, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The other system's arrays by their names below its layer, for a layer's weights.

        Raises NotExpressibleError.
        """
        if layer.share:
            raise NotExpressibleError("single weights of it are those of another layer (share)")
        shapes = {name: tuple(np.shape(array)) for name, array in weights.items()}
        result: dict[str, np.ndarray] = {}
        for layout in self.layouts(layer, shapes):
            arrays = layout.transform.to_theirs(tuple(np.asarray(weights[name]) for name in layout.ours))
            result.update(zip(layout.theirs, arrays, strict=True))
        return result

    def _with_activations(self, function: LayoutFunction, layer: Layer, shapes: Shapes) -> Sequence[WeightLayout]:
        own = {n: s for n, s in shapes.items() if n.partition("/")[0] not in ("activation", "recurrent_activation")}
        layouts = list(function(layer, own))
        for name in ("activation", "recurrent_activation"):
            inner = {n.partition("/")[2]: s for n, s in shapes.items() if n.partition("/")[0] == name}
            below = self.layouts(getattr(layer, name), inner) if inner else ()
            layouts += [layout.under(f"{name}/", f"{name}{self.separator}") for layout in below]
        return layouts


def _split_name(name: str) -> tuple[str, ...]:
    return tuple(re.split(r"[./]", name)) if name else ()


class _OwnLayouts(LayoutTable):
    """Weights as we have them."""

    def to_theirs(self, layer: Layer, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(weights)

    def layouts(self, layer: Layer, shapes: Shapes) -> Sequence[WeightLayout]:
        return [WeightLayout((name,), (name,)) for name in shapes]


OWN_LAYOUTS = _OwnLayouts(system="prototorch", separator="/")


def layout_table(system: str) -> LayoutTable | None:
    """The table of a system by its name ("torch", "keras", "prototorch", ...); None where there is none."""
    table: LayoutTable | None = next(
        (entry.load() for entry in entries(LayoutTable.__name__) if entry.facts["system"] == system), None
    )
    return table
