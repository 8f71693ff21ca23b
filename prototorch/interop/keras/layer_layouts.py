"""How Keras' layers store the weights of ours, as the rows of `interop.counterparts.keras` say.

The names are those that the readers give, in Keras' own order. What depends on the net, because Keras' images have
their channels last (rows of a Dense behind Flatten), is in `net_layouts`.
"""

from __future__ import annotations

from prototorch.interop.counterparts.keras.row import keras_row
from prototorch.interop.layouts import LayoutFunction, LayoutTable
from prototorch.layers.base import Layer

__all__ = ["LAYOUTS"]


def _layouts_of_row(layer: type[Layer]) -> LayoutFunction | None:
    row = keras_row(layer)
    return row.weight_layouts if row is not None and row.has_layouts else None


LAYOUTS = LayoutTable("keras", separator="/", find=_layouts_of_row)
