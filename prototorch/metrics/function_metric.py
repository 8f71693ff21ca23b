"""A Python function as a metric: ``compile(metrics=[my_metric])``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from prototorch import ops
from prototorch.losses.function_loss import apply_function
from prototorch.metrics.base import TOTAL_DTYPE, Direction, MeanMetric
from prototorch.schema import field
from prototorch.schema.python_function import FunctionField, PythonFunction


class FunctionMetric(MeanMetric):
    """The mean of a function of target and output that is written in `prototorch.ops`, as in Keras.

    It returns the value of each sample, [batch], or at each position, [batch, ...]; the mean over the samples is
    weighted. Of scalars, one for each batch, the mean over the batches is taken. A callback that monitors it must say
    its mode. A file holds the function's name alone: `load_model` takes it in ``custom_objects``. Python only.
    """

    function: PythonFunction = field(type=FunctionField(), doc="The function of target and output.")
    direction: ClassVar[Direction | None] = None

    @property
    def log_name(self) -> str:  # type: ignore[override]
        """The function's own name."""
        return self.function.name

    def match_target(self, target: Any, output: Any) -> Any:
        """The target in the output's dtype."""
        return target if target.dtype == output.dtype else ops.cast(target, dtype=output.dtype)

    def values(self, target: Any, output: Any) -> Any:
        return apply_function(self.function, "the metric function", self.match_target(target, output), output)

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        result = self.values(target, output)
        if result.ndim:
            return super().update(states, target, output, weight)
        value = ops.cast(result, dtype=TOTAL_DTYPE)
        return {"total": states["total"] + value, "count": states["count"] + 1.0}
