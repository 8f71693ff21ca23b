"""A Python function as a loss: ``compile(loss=my_loss)``."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Any

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.graph.function_tracing import TracedFunction, trace_function
from prototorch.losses.base import Loss
from prototorch.schema import field
from prototorch.schema.python_function import FunctionField, PythonFunction
from prototorch.spec import Spec


class FunctionLoss(Loss):
    """A function of target and output that is written in `prototorch.ops`, as in Keras.

    It is called with the targets in the output's dtype, and the outputs [batch, ...], and returns the loss of each
    sample, [batch], or at each position, [batch, ...], whose mean is taken; sample weights and masks apply to these. Of
    a scalar that it returns, the loss of the whole batch, they apply as a factor. Targets have the output's shape, or
    that of the data where this is another one.

    A file holds its name alone: `load_model` takes it in ``custom_objects``. Python only.
    """

    max_classes = inf
    function: PythonFunction = field(type=FunctionField(), doc="The function of target and output.")

    def match_target(self, target: Any, spec: Spec, output: Spec) -> Any:
        """The target in the output's dtype; an axis of one at the end may be missing or superfluous."""
        have, shape = tuple(target.shape), tuple(spec.shape)
        if have != shape and ((*have, 1) == shape or have == (*shape, 1)):
            target = ops.reshape(target, shape=shape)
        return target if target.dtype == spec.dtype else ops.cast(target, dtype=spec.dtype)

    def values(self, target: Any, output: Any) -> Any:
        result = apply_function(self.function, "the loss function", target, output)
        return ops.broadcast_to(result, shape=(output.shape[0],)) if result.ndim == 0 else result

    def position_values(self, values: Any, output: Any) -> Any:
        """What the function gives."""
        return values


def apply_function(function: PythonFunction, kind: str, target: Any, output: Any) -> Any:
    """The result of a function of target and output: [batch, ...], or a scalar.

    Raises UsageError where it is not written in ops, and ShapeError for a result of another shape.
    """
    name, batch = f"{kind} {function.name!r}", output.shape[0]
    traced = _trace(function, name, target.spec, output.spec)
    if traced.spec.ndim and traced.spec.shape[0] != batch:
        raise ShapeError(
            f"{name} returns an array of shape {list(traced.spec.shape)} for a batch of {batch}: expected the value of "
            f"each sample, [{batch}], at each position, [{batch}, ...], or a scalar"
        )
    result = traced(target, output)
    return result if traced.spec.is_float else ops.cast(result, dtype="float32")


@lru_cache(maxsize=64)
def _trace(function: PythonFunction, name: str, target: Spec, output: Spec) -> TracedFunction:
    return trace_function(function.resolve(), name, (target, output))
