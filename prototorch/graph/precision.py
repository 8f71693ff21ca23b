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

from prototorch.backends.precision import numpy_type
from prototorch.ops.core import Op
from prototorch.ops.elementwise import cast

#: always read narrow values: the time goes there
PRODUCTS = frozenset({
    "matmul", "conv", "conv_input_grad", "conv_weight_grad", "attention_weights", "attention_heads",
    "simple_rnn_sequence", "lstm_sequence", "gru_sequence",
})  # fmt: skip
#: take x in another type than the rest, and deal with it themselves
MIXED = frozenset({"batch_norm", "batch_norm_inference", "layer_norm", "group_norm"})
#: make numbers of their own: in float32, for a narrow type has too few between 0 and 1
DRAWS = frozenset({"random_uniform"})
WIDE = "float32"


class Narrowing:
    """What is recorded while a graph holds it is stored in the type ``low`` where that is told above."""

    def __init__(self, low: str):
        """low: "float16" or "bfloat16". Raises BackendError where bfloat16 is asked for and NumPy does not know it."""
        self.low, self.type = low, numpy_type(low)

    def before(self, graph: Any, op: Op, inputs: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The inputs and attributes an op is recorded with."""
        if op is cast or op.name in MIXED:
            return inputs, attrs
        if op.name in DRAWS and attrs.get("dtype") == self.low:
            return inputs, {**attrs, "dtype": WIDE}
        if op.name in PRODUCTS or any(v.dtype == self.low for v in inputs):
            inputs = tuple(self.narrow(graph, v) if v.dtype == WIDE else v for v in inputs)
        return inputs, attrs

    def narrow(self, graph: Any, value: Any) -> Any:
        """A float32 value in the narrow type; a constant becomes another constant."""
        if value.kind == "constant":
            return graph.constant(value.array.astype(self.type))
        return cast(value, dtype=self.low)


def widened(value: Any) -> Any:
    """A value in float32 where it is narrower."""
    return cast(value, dtype=WIDE) if value.dtype in ("float16", "bfloat16") else value
