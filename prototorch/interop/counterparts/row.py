"""The rows of counterparts: what another system has for a layer of ours, read in both directions.

A system has a folder here, and in it one file a family of layers, with its rows: ``ROWS = CounterpartRows(system=...,
rows=(...))``. A file that is there is registered. A system that needs more in its rows declares a class below
`Counterpart`. What is true of our layer, whatever the system, is an attribute of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from prototorch.base.index import Extension, entries
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import LayoutFunction, LayoutTable, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import Transform

__all__ = [
    "Counterpart",
    "CounterpartLayouts",
    "CounterpartRows",
    "FieldPair",
    "WeightPair",
    "counterpart_of",
    "counterpart_rows",
    "read_fields",
    "same_weights",
    "write_fields",
]


@dataclass(frozen=True)
class FieldPair:
    """A field of our layer and the field or argument of the other system that holds its value.

    ours: its name here. default: the other system's own, where it is not stated. values: our value by theirs, where
    they differ. is_always_stated: whether the other system's default is written, too.
    """

    ours: str
    default: Any = None
    values: Mapping[Any, Any] | None = None
    is_always_stated: bool = False

    def to_ours(self, value: Any) -> Any:
        """Our value of theirs. Raises KeyError for a value that ours does not have."""
        return value if self.values is None else self.values[value]

    def to_theirs(self, value: Any) -> Any:
        """The other system's value of ours. Raises StopIteration for a value that it does not have."""
        if self.values is None:
            return value
        return next(theirs for theirs, ours in self.values.items() if ours == value)


def read_fields(pairs: Mapping[str, FieldPair], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Our fields for what the other system states. Raises KeyError for a value that ours does not have."""
    return {pair.ours: pair.to_ours(stated.get(name, pair.default)) for name, pair in pairs.items()}


def write_fields(pairs: Mapping[str, FieldPair], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the other system states for our fields; its defaults are left out. Raises StopIteration for a value that it
    does not have."""
    stated = {name: pair.to_theirs(values[pair.ours]) for name, pair in pairs.items()}
    return {
        name: value for name, value in stated.items() if pairs[name].is_always_stated or value != pairs[name].default
    }


@dataclass(frozen=True)
class WeightPair:
    """A weight of our layer and the array that the other system has for it.

    ours: its name below our layer; "" for an array that only the other system has. theirs: its name below the other
    system's layer. transform: ``(layer, shape of our weight)`` gives what makes ours of theirs; None: the array as it
    is. is_stored: whether a layer with a config of the other system has it; None: always. is_state: whether it is a
    state, which no optimizer changes.
    """

    ours: str
    theirs: str
    transform: Callable[[Any, tuple[int, ...]], Transform] | None = None
    is_stored: Callable[[Mapping[str, Any]], bool] | None = None
    is_state: bool = False

    def layout(self, layer: Layer, shape: tuple[int, ...]) -> WeightLayout:
        """The layout for a layer's weight of this shape."""
        transform = Transform() if self.transform is None else self.transform(layer, shape)
        return WeightLayout((self.ours,), (self.theirs,), transform)


def same_weights(*names: str) -> tuple[WeightPair, ...]:
    """Weights that have the same name and form in the other system."""
    return tuple(WeightPair(name, name) for name in names)


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """A layer of another system and our layer of the same meaning, or a family of layers whose rows are equal.

    layers: our classes; none for a layer that only the other system has. name: the other system's, "" where it has
    those of our classes. reason: why the other system has no such layer; of a row without layers, why there is none
    here. fields: by the other system's names; fields that have the same name and meaning there need no pair. fixed:
    fields of ours that the other system does not have -> the only value that it can express. weights: in the other
    system's order of its arrays. layouts: ``(layer, shapes of its weights by name)`` gives their layouts where the
    pairs do not say it. weight_variants: of further forms in which files have the weights; they are only read. since:
    the first version of the other system that has the layer with this meaning, "" for any.
    """

    layers: tuple[type[Layer], ...] = ()
    name: str = ""
    reason: str = ""
    fields: Mapping[str, FieldPair] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    weights: tuple[WeightPair, ...] = ()
    layouts: LayoutFunction | None = None
    weight_variants: tuple[LayoutFunction, ...] = ()
    since: str | int = ""

    @property
    def has_layouts(self) -> bool:
        """Whether the layouts of the weights of our layers are known."""
        return self.layouts is not None or any(pair.ours for pair in self.weights)

    def name_of(self, layer: type[Layer]) -> str:
        """The other system's name of one of the classes."""
        return self.name or layer.__name__

    def weight_layouts(self, layer: Layer, shapes: Shapes) -> Sequence[WeightLayout]:
        """The layouts of a layer's weights, by their shapes; of those that the layer has."""
        if self.layouts is not None:
            return self.layouts(layer, shapes)
        return [pair.layout(layer, shapes[pair.ours]) for pair in self.weights if pair.ours in shapes]


@dataclass(frozen=True)
class CounterpartRows(Extension):
    """The rows of a file. system: the name of its folder ("keras")."""

    system: str
    rows: tuple[Counterpart, ...]


@cache
def counterpart_rows(system: str) -> tuple[Counterpart, ...]:
    """All rows of a system, in the order of their files' names."""
    files = (entry.load() for entry in entries(CounterpartRows.__name__) if entry.facts["system"] == system)
    return tuple(row for file in files for row in file.rows)


def counterpart_of(system: str, layer: type[Layer]) -> Counterpart | None:
    """The row of a class of ours in a system; None where the system has no row for it."""
    return _by_layer(system).get(layer)


@cache
def _by_layer(system: str) -> dict[type[Layer], Counterpart]:
    """Raises ValueError for a class with two rows."""
    table: dict[type[Layer], Counterpart] = {}
    for row in counterpart_rows(system):
        for layer in row.layers:
            if layer in table:
                raise ValueError(f"{layer.__name__} has two rows in {system}")
            table[layer] = row
    return table


class CounterpartLayouts(LayoutTable):
    """The layouts of a system as its rows say them."""

    def find(self, layer: type[Layer]) -> LayoutFunction | None:
        row = counterpart_of(self.system, layer)
        return row.weight_layouts if row is not None and row.has_layouts else None

    def find_variants(self, layer: type[Layer]) -> Sequence[LayoutFunction]:
        row = counterpart_of(self.system, layer)
        return () if row is None else row.weight_variants
