"""How Keras' layers store the weights of ours, as the rows of `interop.counterparts.keras` say.

The names are those that the readers give, in Keras' own order. What depends on the net, because Keras' images have
their channels last (rows of a Dense behind Flatten), is in `net_layouts`.
"""

from __future__ import annotations

from prototorch.interop.counterparts.row import CounterpartLayouts
from prototorch.interop.keras.net_layouts import net_layouts

__all__ = ["LAYOUTS"]

LAYOUTS = CounterpartLayouts(system="keras", separator="/", net_layouts=net_layouts)
