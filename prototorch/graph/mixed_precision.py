"""Lower precision, said in ops: which values of a net are stored in a narrow type, decided as each op is recorded.

Products (convolutions, dense layers, attention, recurrent layers) read narrow copies of what they are given and give
narrow results; other ops give what they read, and where a narrow value meets a float32 one, the result is narrow. An op
computes in float32 whatever the type its values are stored in. Weights stay float32 (master weights; a product reads a
copy of one), and so do the gradients that the optimiser reads, normalisation's weights and statistics, random draws,
the model's outputs, losses and metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.backends.precision import numpy_dtype
from prototorch.ops.core import Op
from prototorch.ops.elementwise import cast

#: always read narrow values: the time goes there
LOW_PRECISION_OPS = frozenset({
    "matmul", "conv", "conv_input_grad", "conv_weight_grad", "attention_weights", "attention_heads",
    "simple_rnn_sequence", "lstm_sequence", "gru_sequence",
})  # fmt: skip
#: take x in another type than the rest, and deal with it themselves
MIXED_INPUT_OPS = frozenset({"batch_norm", "batch_norm_inference", "layer_norm", "group_norm"})
#: make numbers of their own: in float32, for a narrow type has too few between 0 and 1
FLOAT32_RANDOM_OPS = frozenset({"random_uniform"})
FLOAT32 = "float32"


class Autocast:
    """What is recorded while a graph holds it is stored in the type ``low`` where that is told above."""

    def __init__(self, compute_dtype: str):
        """low: "float16" or "bfloat16". Raises BackendError where bfloat16 is asked for and NumPy does not know it."""
        self.compute_dtype, self.numpy_dtype = compute_dtype, numpy_dtype(compute_dtype)

    def cast_inputs(
        self, graph: Any, op: Op, inputs: Sequence[Any], attrs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The inputs and attributes an op is recorded with."""
        if op is cast or op.name in MIXED_INPUT_OPS:
            return inputs, attrs
        if op.name in FLOAT32_RANDOM_OPS and attrs.get("dtype") == self.compute_dtype:
            return inputs, {**attrs, "dtype": FLOAT32}
        if op.name in LOW_PRECISION_OPS or any(v.dtype == self.compute_dtype for v in inputs):
            inputs = tuple(self.to_low_precision(graph, v) if v.dtype == FLOAT32 else v for v in inputs)
        return inputs, attrs

    def to_low_precision(self, graph: Any, value: Any) -> Any:
        """A float32 value in the narrow type; a constant becomes another constant."""
        if value.kind == "constant":
            return graph.constant(value.array.astype(self.numpy_dtype))
        return cast(value, dtype=self.compute_dtype)


def to_float32(value: Any) -> Any:
    """A value in float32 where it is narrower."""
    return cast(value, dtype=FLOAT32) if value.dtype in ("float16", "bfloat16") else value
