"""What a row says of a layer of Keras, besides what each `Counterpart` says, and the rows by Keras' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from prototorch.interop.counterparts.row import Counterpart, FieldPair, WeightPair, counterpart_of, counterpart_rows
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer

__all__ = [
    "KerasRow",
    "activation_of_function",
    "class_of_name",
    "keras_row",
    "keras_rows",
    "modern_name",
    "name_in_weight_files",
    "row_of_function",
    "row_of_name",
    "row_of_operation",
]


@dataclass(frozen=True, kw_only=True)
class KerasRow(Counterpart):
    """A layer of Keras 3 and ours, or a family.

    since: the first version of Keras 3 that has it, where that is not 3.0.

    The class in Keras:
    old_names: of classes in older versions -> their names today. names_in_weight_files: what else a file of weights
    calls the class -> the name today. also_read: further classes of Keras that are this layer here.
    data_format: what is written for the argument ``data_format``; None: "channels_first" for a layer over a map of
    channels (`rank`), none for others; "" where the class does not take it, and its channels are last.

    The function in Keras, of an activation:
    function: the name in keras.activations. function_aliases: its other names. function_settings: fields of our layer
    that the function has, where they are not its defaults. has_class: whether Keras has a class, too; without one the
    layer is an Activation there. other_settings: why it cannot be written with other settings than the function's.
    operations: the names of the same function in keras.ops. operate: ``(site)`` gives its outputs; None: the
    activation's.

    Arguments:
    old_arguments: of older versions -> today's. call_fields: fields that are arguments of the call there, by Keras'
    names. keeps_constraints: whether the axes of the weights that constraints speak of are ours. write: ``(layer,
    config)`` changes the arguments that have another form there. instead: ``(layer)`` gives the layer of ours that is
    written for it. call: ``(layer, inputs)`` gives positional and named arguments of the call; None: one input, or a
    list. call_arguments: names of further arguments of the call. positional_arguments: how many arguments of the call
    may stand without a name, but for `training` and masks.

    Reading:
    read: ``(site)`` adds our layers for a call and gives their outputs; None: as follows from our class.
    left_out: arguments that are looked at elsewhere, or mean nothing here. passes_order: of a layer that reads a
    sequence of the model's inputs: whether the order of its axes is that of the layers behind. merge_mode: the mode of
    Keras 1's Merge that is this layer.

    Files of weights:
    name_in_files: Keras' own name of the class, which its files have, where it is not the public one.
    parts: attributes of Keras' layer that hold its weights -> what the names of those weights begin with. gates: of a
    recurrent layer of Keras 1, which had three arrays for each gate, the place of the first array of each of today's.
    """

    old_names: Mapping[str, str] = field(default_factory=dict)
    names_in_weight_files: Mapping[str, str] = field(default_factory=dict)
    also_read: tuple[str, ...] = ()
    data_format: str | None = None
    function: str = ""
    function_aliases: tuple[str, ...] = ()
    function_settings: Mapping[str, Any] = field(default_factory=dict)
    has_class: bool = True
    other_settings: str = ""
    operations: tuple[str, ...] = ()
    operate: Callable[[Any], tuple[Any, ...]] | None = None
    old_arguments: Mapping[str, str] = field(default_factory=dict)
    call_fields: Mapping[str, FieldPair] = field(default_factory=dict)
    keeps_constraints: bool = False
    write: Callable[[Any, dict[str, Any]], None] | None = None
    instead: Callable[[Any], Layer] | None = None
    call_arguments: tuple[str, ...] = ()
    positional_arguments: int = 1
    call: Callable[[Any, list[Any]], tuple[tuple[Any, ...], Mapping[str, Any]]] | None = None
    read: Callable[[Any], tuple[Any, ...]] | None = None
    left_out: tuple[str, ...] = ()
    passes_order: bool = False
    merge_mode: str = ""
    name_in_files: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[int, ...] = ()

    def written_data_format(self, layer: type[Layer]) -> str:
        """What is written for ``data_format`` of one of the classes; "" for nothing."""
        if self.data_format is None:
            return "channels_first" if hasattr(layer, "rank") else ""
        return self.data_format

    def is_channels_last(self, layer: type[Layer]) -> bool:
        """Whether one of the classes is over a map of channels and its class in Keras has them last."""
        return hasattr(layer, "rank") and not self.written_data_format(layer)

    def classes(self) -> dict[str, type[Layer] | None]:
        """Our classes by Keras' names of today; None for a class that only Keras has."""
        if not self.layers:
            return {self.name: None}
        classes: dict[str, type[Layer] | None] = dict.fromkeys(self.also_read, self.layers[0])
        if self.has_class:
            classes |= {self.name_of(layer): layer for layer in self.layers}
        return classes

    def part_weights(self, prefix: str) -> list[WeightPair]:
        """The weights whose names begin with that of a part, without it; for "" those that no part holds."""
        prefixes = tuple(other for other in self.parts.values() if other) if not prefix else ()
        return [
            replace(pair, theirs=pair.theirs.removeprefix(prefix))
            for pair in self.weights
            if pair.theirs.startswith(prefix) and not pair.theirs.startswith(prefixes)
        ]


@cache
def keras_rows() -> tuple[KerasRow, ...]:
    """The rows of all files of this folder, in the order of the files' names."""
    return tuple(row for row in counterpart_rows("keras") if isinstance(row, KerasRow))


def keras_row(layer: type[Layer]) -> KerasRow | None:
    """The row of a class of ours; None where Keras has no such layer, as nobody has said why."""
    row = counterpart_of("keras", layer)
    return row if isinstance(row, KerasRow) else None


@cache
def _by_name() -> dict[str, tuple[KerasRow, type[Layer] | None]]:
    table: dict[str, tuple[KerasRow, type[Layer] | None]] = {}
    for row in keras_rows():
        for name, layer in row.classes().items():
            if name in table:
                raise ValueError(f"Keras' {name} has two rows")
            table[name] = row, layer
    return table


def row_of_name(kind: str) -> KerasRow | None:
    """The row of a class of Keras by its name of today."""
    return _by_name().get(kind, (None, None))[0]


def class_of_name(kind: str) -> type[Layer] | None:
    """Our class for a class of Keras; None where there is none. A layer of ours without a row is none of Keras'."""
    return _by_name().get(kind, (None, None))[1]


@cache
def _by_function() -> dict[str, KerasRow]:
    return {name: row for row in keras_rows() if row.function for name in (row.function, *row.function_aliases)}


def row_of_function(name: str) -> KerasRow | None:
    """The row of an activation by a name of Keras' function."""
    return _by_function().get(name)


@cache
def _by_operation() -> dict[str, KerasRow]:
    return {name: row for row in keras_rows() for name in row.operations}


def row_of_operation(kind: str) -> KerasRow | None:
    """The row of a function of keras.ops, by the name of its class."""
    return _by_operation().get(kind)


@cache
def _modern_names() -> dict[str, str]:
    return {old: name for row in keras_rows() for old, name in row.old_names.items()}


def modern_name(kind: str) -> str:
    """The name of today of a class of Keras."""
    return _modern_names().get(kind, kind)


@cache
def _names_in_weight_files() -> dict[str, str]:
    return {old: name for row in keras_rows() for old, name in row.names_in_weight_files.items()}


def name_in_weight_files(kind: str) -> str:
    """The name of today of a class, for its weights: a layer for cuDNN has those of the layer that it speeds up."""
    return _names_in_weight_files().get(kind) or modern_name(kind)


def activation_of_function(name: str) -> ActivationLayer | None:
    """Our activation for a name of Keras' function; None where there is none."""
    row = row_of_function(name) or row_of_function(name.lower())
    if row is None:
        return None
    layer = row.layers[0](**row.function_settings)
    assert isinstance(layer, ActivationLayer)
    return layer
