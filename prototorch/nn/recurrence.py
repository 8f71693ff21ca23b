"""Recurrent layers with PyTorch's weights on the recurrent ops: one layer in one direction at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from prototorch import ops

__all__ = ["LayerWeights", "run_layer"]


class LayerWeights(NamedTuple):
    """The weights of one layer in one direction: w_ih [gates * hidden, in], w_hh [gates * hidden, out], biases
    [gates * hidden] (None without), w_hr [proj_size, hidden] (None without a projection)."""

    w_ih: Any
    w_hh: Any
    b_ih: Any = None
    b_hh: Any = None
    w_hr: Any = None


def run_layer(
    kind: str, x: Any, weights: LayerWeights, states: Sequence[Any], mask: Any = None, reverse: bool = False
) -> tuple[Any, list[Any]]:
    """x [batch, time, in] and the first states [batch, out] (of an LSTM also c [batch, hidden]): the outputs of all
    steps [batch, time, out] in their order in time, and the last states. kind: RNN_TANH, RNN_RELU, LSTM or GRU. A step
    that the mask [batch, time] leaves out keeps the states."""
    masks = () if mask is None else (mask,)
    attrs = {"masked": mask is not None, "reverse": reverse}
    if weights.w_hr is not None:
        y, last = _run_projected(x, weights, states, mask, reverse)
        return y, last
    if kind == "GRU":
        order = _update_gate_first
        inner = weights.b_hh
        if inner is None:
            inner = ops.full.apply_like(x, shape=(weights.w_hh.shape[0],), value=0.0, dtype=str(x.dtype))
        projection = _project(x, order(weights.w_ih), None if weights.b_ih is None else order(weights.b_ih))
        u = ops.transpose(order(weights.w_hh), order=(1, 0))
        y, *last = ops.gru_sequence(projection, u, order(inner), *states, *masks, **attrs)
    else:
        projection = _project(x, weights.w_ih, _sum_of_biases(weights))
        u = ops.transpose(weights.w_hh, order=(1, 0))
        if kind == "LSTM":
            y, *last = ops.lstm_sequence(projection, u, *states, *masks, **attrs)[:3]
        else:
            activation = kind.removeprefix("RNN_").lower()
            y, *last = ops.simple_rnn_sequence(projection, u, *states, *masks, activation=activation, **attrs)
    return (ops.flip(y, axis=1) if reverse else y), list(last)


def _update_gate_first(x: Any) -> Any:
    """PyTorch's gates r, z, n along axis 0 as z, r, n."""
    r, z, n = ops.split(x, 3, axis=0)
    return ops.concat(z, r, n, axis=0)


def _sum_of_biases(weights: LayerWeights) -> Any:
    return None if weights.b_ih is None else weights.b_ih + weights.b_hh


def _project(x: Any, w: Any, bias: Any) -> Any:
    batch, time, n = x.shape
    y = ops.matmul(ops.reshape(x, shape=(batch * time, n)), w, transpose_b=True)
    y = y if bias is None else y + bias
    return ops.reshape(y, shape=(batch, time, w.shape[0]))


def _run_projected(
    x: Any, weights: LayerWeights, states: Sequence[Any], mask: Any, reverse: bool
) -> tuple[Any, list[Any]]:
    """An LSTM whose output is projected (Sak et al., 2014), step by step."""
    projection = _project(x, weights.w_ih, _sum_of_biases(weights))
    h, c = states
    outputs: list[Any] = [None] * x.shape[1]
    for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        gates = projection[:, t] + ops.matmul(h, weights.w_hh, transpose_b=True)
        i, f, g, o = ops.split(gates, 4, axis=1)
        new_c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        new_h = ops.matmul(ops.sigmoid(o) * ops.tanh(new_c), weights.w_hr, transpose_b=True)
        if mask is not None:
            keep = mask[:, t : t + 1]
            new_h, new_c = ops.where(keep, new_h, h), ops.where(keep, new_c, c)
        h, c = new_h, new_c
        outputs[t] = h
    return ops.stack(outputs, axis=1), [h, c]
