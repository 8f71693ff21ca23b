"""Gradients as symbols."""

from __future__ import annotations

from typing import Any

from prototorch.errors import UsageError
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.graph.symbolic_functions import GradientsCall

__all__ = ["gradients"]


def gradients(outputs: Any, inputs: Any) -> Any:
    """The gradients of outputs (of their sum, where there are several elements) with respect to inputs, as symbols
    (TensorFlow's tf.gradients).

    outputs: a symbol, or a list. inputs: a symbol, or a list, in which case a list of gradients is given; an input may
    be any symbol. Gradients can be differentiated again. In a run, one that no output depends on is zeros.
    """
    results = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    targets = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    for what, symbols in (("outputs", results), ("inputs", targets)):
        for symbol in symbols:
            if not isinstance(symbol, SymbolicTensor):
                raise UsageError(f"gradients: its {what} must be symbolic tensors, got {type(symbol).__name__}")
    call = GradientsCall(results, targets)
    gradient_symbols = [SymbolicTensor(call, k) for k in range(len(targets))]
    return gradient_symbols if isinstance(inputs, list | tuple) else gradient_symbols[0]
