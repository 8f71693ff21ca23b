"""Variables of static graphs: arrays that live between runs, and their assignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.eager.fed_values import fed_array
from prototorch.eager.functions.creation import as_array
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.layer_call import weight_tensor
from prototorch.eager.random_keys import default_keys
from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.device_scope import default_device
from prototorch.errors import UsageError
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.graph.symbolic_functions import AssignCall, GroupCall, MinimizeCall, VariableCall
from prototorch.initializers.base import Initializer, compute_fans
from prototorch.static.kept_array import KeptArray
from prototorch.static.placement import mark_placed

__all__ = ["GraphVariable", "group"]


class GraphVariable(KeptArray, SymbolicTensor):
    """An array that a static graph keeps between its runs; itself a symbol, the array's value in a run.

    initial_value: an array, a number, or an initializer with ``shape`` ("zeros", "glorot_uniform", an object of
    `pt.initializers`). trainable: whether `minimize` changes it. name: default ``variable_N``. dtype: default that of
    the value, float32 for Python's floats and initializers. device: where it lives, and the graphs that use it run;
    default that of a value which is a tensor on a GPU, or of ``with pt.device(...)``; without one the graph's.

    ``value`` is a copy of the array, also to be set.
    """

    def __init__(
        self,
        initial_value: Any,
        shape: Sequence[int] | None = None,
        *,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        device: Any = None,
    ):
        super().__init__(VariableCall(self), 0)
        self.trainable, self.name = trainable, name or f"variable_{self.number}"
        if isinstance(initial_value, SymbolicTensor):
            raise UsageError(f"Variable {self.name!r}: its initial value must be an array, not {initial_value!r:.60}")
        if isinstance(initial_value, str | Initializer):
            if shape is None:
                raise UsageError(f"Variable {self.name!r}: an initializer needs a shape: Variable('zeros', shape=(2,))")
            sizes = tuple(int(n) for n in shape)
            rule = Initializer.lookup(initial_value)() if isinstance(initial_value, str) else initial_value
            array = np.array(
                rule.values(sizes, default_keys.next_generator(), compute_fans(sizes)), dtype=str(dtype or "float32")
            )
        else:
            receiver = f"Variable {self.name!r}"
            array = as_array(initial_value) if dtype is None else fed_array(initial_value, dtype, receiver)
            if shape is not None and tuple(shape) != array.shape:
                raise UsageError(f"Variable {self.name!r}: shape {list(shape)} was given for {list(array.shape)}")
        if device is None and isinstance(initial_value, Tensor) and initial_value.device.type != "cpu":
            device = initial_value.device
        interpreter = interpreter_for(device)
        self.tensor: Tensor = weight_tensor(array, array.dtype.kind == "f", interpreter=interpreter)
        if device is not None or default_device() is not None:
            mark_placed(self.tensor)

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} {self.tensor.spec}>"

    def assign(self, value: Any) -> SymbolicTensor:
        """The assignment of a symbol to the variable: give it to a `Graph` as an update, or as an output. In a run all
        reads see the value from before it; the new value is there at its end."""
        if not isinstance(value, SymbolicTensor):
            raise UsageError(f"assign: expected a symbolic tensor, got {type(value).__name__}; set value to an array")
        return SymbolicTensor(AssignCall(self, value), 0)

    def assign_add(self, value: Any) -> SymbolicTensor:
        """The assignment of the sum of the variable and a symbol or a number."""
        return self.assign(self + value)

    def assign_sub(self, value: Any) -> SymbolicTensor:
        """The assignment of the difference of the variable and a symbol or a number."""
        return self.assign(self - value)


def group(*members: Any) -> SymbolicTensor:
    """Assignments (and groups of them) as one update of a graph."""
    for member in members:
        if not isinstance(member, SymbolicTensor) or not isinstance(member.call, AssignCall | GroupCall | MinimizeCall):
            raise UsageError(f"group: expected assignments (variable.assign(...)), got {member!r:.60}")
    return SymbolicTensor(GroupCall(members), 0)
