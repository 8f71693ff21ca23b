"""The table of Keras' layouts: those of its layers, and those that follow from a layer's place in its net."""

from __future__ import annotations

from prototorch.interop.keras.layer_layouts import LAYOUTS
from prototorch.interop.keras.net_layouts import net_layouts

__all__ = ["LAYOUTS"]

LAYOUTS.register_net(net_layouts)
