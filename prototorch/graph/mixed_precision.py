"""Mixed precision: casts are inserted as each op is recorded, by the precision class that the op declares.

Ops of the class LOW (convolutions, matrix products, attention, recurrent ops) read low-precision copies of their inputs
and return low-precision results; ops of the class FOLLOWS return the dtype they read, and where a low-precision value
meets a float32 one, the result has low precision. Kernels accumulate in float32 whatever dtype their values are stored
in. Weights stay float32 (master weights; a product reads a copy), and so do the gradients that the optimiser reads,
weights and statistics of normalisation, random numbers, the model's outputs, losses and metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.engine.backends.precision import numpy_dtype
from prototorch.ops.core import Op
from prototorch.ops.elementwise import cast
from prototorch.ops.facts import PrecisionClass

__all__ = ["Autocast", "to_float32"]

FLOAT32 = "float32"


class Autocast:
    """Inserts casts to ``compute_dtype`` into the graph that records with it."""

    def __init__(self, compute_dtype: str):
        """compute_dtype: "float16" or "bfloat16". Raises BackendError for bfloat16 where NumPy does not support it."""
        self.compute_dtype, self.numpy_dtype = compute_dtype, numpy_dtype(compute_dtype)

    def cast_inputs(
        self, graph: Any, op: Op, inputs: Sequence[Any], attrs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The inputs and attributes that an op is recorded with."""
        if op.precision is PrecisionClass.MIXED:
            return inputs, attrs
        if op.precision is PrecisionClass.FLOAT32 and attrs.get("dtype") == self.compute_dtype:
            return inputs, {**attrs, "dtype": FLOAT32}
        if op.precision is PrecisionClass.LOW or any(v.dtype == self.compute_dtype for v in inputs):
            inputs = tuple(self.to_low_precision(graph, v) if v.dtype == FLOAT32 else v for v in inputs)
        return inputs, attrs

    def to_low_precision(self, graph: Any, value: Any) -> Any:
        """A float32 value cast to ``compute_dtype``; a constant is converted."""
        if value.kind == "constant":
            return graph.constant(value.stored_array.astype(self.numpy_dtype))
        return cast(value, dtype=self.compute_dtype)


def to_float32(value: Any) -> Any:
    """A value of a 16-bit dtype cast to float32; others as they are."""
    return cast(value, dtype=FLOAT32) if value.dtype in ("float16", "bfloat16") else value
