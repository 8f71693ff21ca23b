"""Initialisers of gates."""

from __future__ import annotations

import numpy as np

from prototorch.errors import ShapeError
from prototorch.initializers.base import Initializer
from prototorch.schema import field


class UnitForgetBias(Initializer):
    """The bias of an LSTM whose forget gate, its second quarter, begins at 1 (Jozefowicz et al., 2015)."""

    initializer: Initializer = field(default="zeros", doc="How the other three quarters begin.")

    def check_shape(self, shape):
        if len(shape) != 1 or shape[0] % 4:
            raise ShapeError(f"UnitForgetBias initialises the bias of an LSTM, not a weight of shape {list(shape)}")

    def values(self, shape, rng, fans):
        self.check_shape(shape)
        units = shape[0] // 4
        made = np.array(self.initializer.values(shape, rng, fans))
        made[units : 2 * units] = 1
        return made
