"""The initializer of an LSTM's bias."""

from __future__ import annotations

import numpy as np

from prototorch.errors import ShapeError
from prototorch.initializers.base import Initializer
from prototorch.schema import field


class UnitForgetBias(Initializer):
    """The bias of an LSTM whose forget gate, its second quarter, is 1 at first (Jozefowicz et al., 2015)."""

    initializer: Initializer = field(default="zeros", doc="Initializer of the other three quarters.")

    def check_shape(self, shape):
        if len(shape) != 1 or shape[0] % 4:
            raise ShapeError(f"UnitForgetBias needs an LSTM's bias, [4 * units], got a weight of shape {list(shape)}")

    def values(self, shape, rng, fans):
        self.check_shape(shape)
        units = shape[0] // 4
        values = np.array(self.initializer.values(shape, rng, fans))
        values[units : 2 * units] = 1
        return values
