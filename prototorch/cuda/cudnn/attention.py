"""Attention weights: a product by cuDNN, then a masked softmax in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.cuda.cudnn.matmul import matmul
from prototorch.cuda.kernels.launch import LaunchSequence
from prototorch.cuda.kernels.softmax import masked_softmax
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


class _Attention:
    """The product of queries and keys, then the masked softmax over it, in place."""

    def __init__(self, scores: KernelFn, weights: LaunchSequence):
        self.scores, self.weights = scores, weights

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """inputs: queries, keys, masks; outputs: the weights, which hold the scores in between."""
        self.scores(inputs[:2], outputs)
        self.weights(inputs, outputs)


@kernel("cuda", "attention_weights")
def attention_weights(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """softmax(q k^T * scale) over the keys that the mask admits."""
    if len(ins) > 3 or any(s.layout or not s.size for s in (*ins, *outs)):
        return None
    scores = matmul(ins[:2], outs, {"transpose_b": True})
    weights = masked_softmax(ins, outs, attrs)
    return None if scores is None or weights is None else _Attention(scores, weights)
