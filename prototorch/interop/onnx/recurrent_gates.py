"""The recurrent layers of ONNX and ours: the orders of their gates, and the names of activations inside them.

ONNX keeps one matrix [directions, gates * units, inputs] for the input, W, one [directions, gates * units, units] for
the state, R, and both biases in one array [directions, 2 * gates * units], B; ours is [inputs, gates * units].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["ACTIVATIONS", "GATES", "to_onnx_gates", "to_our_gates"]

#: by ONNX' op: the number of our gate at each place of ONNX' order. LSTM: i, o, f, c of our i, f, c, o; GRU: z, r, h in
#: both.
GATES: dict[str, tuple[int, ...]] = {"LSTM": (0, 3, 1, 2), "GRU": (0, 1, 2), "RNN": (0,)}

#: ONNX' name of one of our activations by its name, with its alpha and beta where it has them
ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "tanh": ("Tanh", None, None), "sigmoid": ("Sigmoid", None, None), "relu": ("Relu", None, None),
    "hard_sigmoid": ("HardSigmoid", 1 / 6, 0.5), "linear": ("Affine", 1.0, 0.0), "softsign": ("Softsign", None, None),
    "softplus": ("Softplus", None, None), "elu": ("Elu", 1.0, None),
}  # fmt: skip


def to_onnx_gates(op: str, ours: np.ndarray) -> np.ndarray:
    """[..., gates * units] in our order as [gates * units, ...] in ONNX' order."""
    return _reorder(ours, GATES[op]).T


def to_our_gates(op: str, theirs: np.ndarray) -> np.ndarray:
    """[gates * units, ...] in ONNX' order as [..., gates * units] in ours."""
    order = GATES[op]
    return _reorder(theirs.T, [order.index(i) for i in range(len(order))])


def _reorder(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    parts = np.split(array, len(order), axis=-1)
    return np.concatenate([parts[i] for i in order], axis=-1)
