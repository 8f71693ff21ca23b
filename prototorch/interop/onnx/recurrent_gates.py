"""The gates of recurrent layers in ONNX' order and in ours, and the names of activations inside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from prototorch.interop.counterparts.onnx.row import RecurrentActivation
from prototorch.interop.onnx.op_pairs import op_pairs, recurrent_pair
from prototorch.text.case_conversion import snake_case

__all__ = ["recurrent_activations", "to_onnx_gates", "to_our_gates"]


@cache
def recurrent_activations() -> Mapping[str, RecurrentActivation]:
    """ONNX' names of activations inside a recurrent layer, by ours."""
    return {snake_case(p.layers[0].__name__): p.in_recurrent for p in op_pairs() if p.in_recurrent is not None}


def to_onnx_gates(op: str, ours: np.ndarray) -> np.ndarray:
    """[..., gates * units] in our order as [gates * units, ...] in ONNX' order."""
    return _reorder(ours, recurrent_pair(op).gates).T


def to_our_gates(op: str, theirs: np.ndarray) -> np.ndarray:
    """[gates * units, ...] in ONNX' order as [..., gates * units] in ours."""
    order = recurrent_pair(op).gates
    return _reorder(theirs.T, [order.index(i) for i in range(len(order))])


def _reorder(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    parts = np.split(array, len(order), axis=-1)
    return np.concatenate([parts[i] for i in order], axis=-1)
