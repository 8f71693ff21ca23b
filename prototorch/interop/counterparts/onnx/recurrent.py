"""Recurrent layers.

ONNX keeps one matrix [directions, gates * units, inputs] for the input, W, one [directions, gates * units, units] for
the state, R, and both biases in one array [directions, 2 * gates * units], B; ours is [inputs, gates * units].
"""

from __future__ import annotations

from prototorch import layers
from prototorch.interop.counterparts.onnx.row import RecurrentPair
from prototorch.interop.counterparts.row import CounterpartRows

_GATE, _STATE = ("recurrent_activation", "Sigmoid"), ("activation", "Tanh")

ROWS = CounterpartRows(
    system="onnx",
    rows=(
        # i, o, f, c of our i, f, c, o
        RecurrentPair(name="LSTM", layers=(layers.LSTM,), gates=(0, 3, 1, 2), activations=(_GATE, _STATE, _STATE)),
        # z, r, h in both
        RecurrentPair(name="GRU", layers=(layers.GRU,), gates=(0, 1, 2), activations=(_GATE, _STATE)),
        RecurrentPair(name="RNN", layers=(layers.SimpleRNN,), gates=(0,), activations=(_STATE,)),
    ),
)
