"""A call of a Keras layer and what surrounds it, for the functions that make layers of ours of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.interop.counterparts.keras.row import class_of_name, keras_row
from prototorch.interop.counterparts.row import read_fields
from prototorch.interop.keras.config_import.axis_orders import (
    AxisOrder,
    OrderedNetBuilder,
    OrderedValue,
    channels_first,
    identity,
)
from prototorch.interop.keras.config_import.config_fields import NotImportableError, our_fields
from prototorch.interop.keras.config_import.config_graph import KerasLayerCall
from prototorch.layers.base import Layer

__all__ = ["KerasLayerImport", "Values"]

Values = tuple[OrderedValue, ...]


@dataclass
class KerasLayerImport:
    """A call and what surrounds it. args, kwargs: those of the call, with values of our net. is_shared: whether the
    layer is called several times. free_order: of a Flatten, whether its order of elements is seen by no layer but dense
    ones.
    array: reads a weight of the layer by its place in the file, None where there is no file."""

    builder: OrderedNetBuilder
    call: KerasLayerCall
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_shared: bool = False
    free_order: bool = False
    is_channels_last: bool = True
    array: Callable[[int], np.ndarray | None] = lambda _: None
    notes: list[str] = field(default_factory=list)

    @property
    def config(self) -> Mapping[str, Any]:
        return self.call.config

    def values(self) -> list[OrderedValue]:
        """All values that the call reads."""
        ordered_values: list[OrderedValue] = []
        stack: list[Any] = [[list(self.args), *self.kwargs.values()]]
        while stack:
            item = stack.pop()
            if isinstance(item, OrderedValue):
                ordered_values.append(item)
            elif isinstance(item, list | tuple):
                stack.extend(reversed(item))
        return ordered_values

    def one(self) -> OrderedValue:
        """The only value that the call reads."""
        values = self.values()
        if len(values) != 1:
            raise NotImportableError(f"is called on {len(values)} values; one is expected")
        return values[0]

    @property
    def layer_class(self) -> type[Layer]:
        """Our class for that of the call."""
        cls = class_of_name(self.call.kind)
        assert cls is not None
        return cls

    def fields(self, cls: type[Layer]) -> dict[str, Any]:
        """The fields of a layer of ours from the call's config, and from its arguments that are fields here."""
        row = keras_row(cls)
        of_call = read_fields(row.call_fields, self.kwargs) if row is not None else {}
        return our_fields(cls, self.config, self.notes) | {name: bool(value) for name, value in of_call.items()}

    def add(self, layer: Layer, inputs: Sequence[OrderedValue], order: AxisOrder | None = None) -> Values:
        """Add the layer that the call is."""
        if self.is_shared and any("initializer" in name for name in type(layer).specs()):
            layer = layer.replace(weights=self.call.path)
        if self.config.get("trainable") is False and any("initializer" in name for name in type(layer).specs()):
            layer = layer.replace(trainable=False)
        return self.builder.add(layer, inputs, self.call.path, order)

    @property
    def has_channels_first(self) -> bool:
        """Whether a layer over maps has the channels before the axes of the map in Keras."""
        data_format = self.config.get("data_format", self.config.get("dim_ordering"))
        is_default = data_format in (None, "default")
        return data_format in ("channels_first", "th") or (is_default and not self.is_channels_last)

    def spatial_order(self, rank: int) -> AxisOrder:
        """The order in which a layer over maps reads its input: sequences as in Keras, others with the channels first.
        rank: the number of axes of a sample."""
        return identity(rank) if rank == 2 or self.has_channels_first else channels_first(rank)
