"""An array that a static graph keeps between its runs, as users read and set it."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.fed_values import fed_array
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["KeptArray"]


class KeptArray:
    """tensor: its memory, on the device on which the graph runs. name: for messages and `graph.variables`."""

    tensor: Tensor
    name: str

    @property
    def value(self) -> np.ndarray:
        """A copy of the array, in the host's memory. Setting it raises UsageError for another shape, and for elements
        that its element type cannot hold."""
        return np.array(self.tensor.numpy())

    @value.setter
    def value(self, array: Any) -> None:
        new_value = fed_array(array, self.tensor.dtype, repr(self))
        if new_value.shape != tuple(self.tensor.shape):
            raise UsageError(f"{self!r}: cannot take an array of shape {list(new_value.shape)}")
        interpreter = self.tensor.interpreter
        interpreter.write(self.tensor, interpreter.constant(new_value))

    @property
    def device(self) -> Any:
        """Where the array is."""
        return self.tensor.device
