"""Recurrent layers: LSTM, GRU and RNN, one direction or both.

ONNX keeps sequences as [time, batch, n] (``layout`` 0) and outputs as [time, directions, batch, units]; the layers'
sequences are [batch, time, n]. The two biases of LSTM and RNN are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.counterparts.onnx.row import RecurrentPair
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import KnownArray, NetValue, Operand
from prototorch.interop.onnx.importer.registry import NoLayerError, imports
from prototorch.interop.onnx.op_pairs import op_pairs, recurrent_pair
from prototorch.interop.onnx.recurrent_gates import recurrent_activations, to_our_gates

__all__: list[str] = []


@imports(*(pair.name for pair in op_pairs() if isinstance(pair, RecurrentPair)))
def _recurrent(b: NetBuilder, node: OnnxNode) -> list[Operand]:
    x = _sequence(b, node)
    way = node.get("direction", "forward")
    if way not in ("forward", "reverse", "bidirectional"):
        raise NoLayerError(f"direction {way!r} is not known")
    _check(node, x)
    both = way == "bidirectional"
    backwards = [False, True] if both else [way == "reverse"]
    firsts = _first_states(b, node, x, len(backwards))
    states_are_read = any(n and b.reads.get(n, 0) for n in node.outputs[1:])
    fields = [
        _fields(node, d) | {"return_sequences": True, "return_state": states_are_read, "go_backwards": back}
        for d, back in enumerate(backwards)
    ]
    weights = [_weights(node, d, fields[d]) for d in range(len(backwards))]
    kind = recurrent_pair(node.op).layers[0]
    if not both:
        outputs = b.add_many(b.make(kind, **fields[0]), [x, *firsts[0]], weights[0])
        sequences, states = [outputs[0]], [outputs[1:]]
        if backwards[0]:
            sequences = [_reverse_steps(b, sequences[0])]
    else:
        same = {k: v for k, v in fields[0].items() if k != "go_backwards"} == {
            k: v for k, v in fields[1].items() if k != "go_backwards"
        }
        backward = None if same else b.make(kind, **fields[1])
        layer = b.make(layers.Bidirectional, layer=b.make(kind, **fields[0]), backward_layer=backward, merge_mode=None)
        weights_of_ways = {f"forward_layer/{k}": v for k, v in weights[0].items()}
        weights_of_ways |= {f"backward_layer/{k}": v for k, v in weights[1].items()}
        outputs = b.add_many(layer, [x, *firsts[0], *firsts[1]], weights_of_ways)
        count = (len(outputs) - 2) // 2
        sequences, states = outputs[:2], [outputs[2 : 2 + count], outputs[2 + count :]]
    return _results(b, node, x, sequences, states)


def _check(node: OnnxNode, x: NetValue) -> None:
    if node.get("clip"):
        raise NoLayerError("a limit on the cell's values (clip) has no layer")
    if node.op == "LSTM" and node.flag("input_forget", 0):
        raise NoLayerError("coupled gates (input_forget) have no layer")
    if node.arg(7) is not None and node.op == "LSTM":
        peepholes = node.constant(7)
        if peepholes is None or peepholes.array.any():
            raise NoLayerError("peepholes have no layer")
    lengths = node.arg(4)
    if lengths is not None and not (isinstance(lengths, KnownArray) and (lengths.array == x.dims[0]).all()):
        raise NoLayerError("sequences of different lengths (sequence_lens) have no input here")


def _sequence(b: NetBuilder, node: OnnxNode) -> NetValue:
    """The input as [batch, time, n]."""
    x = node.value(0)
    if x.ndim != 3 or x.extra:
        raise NoLayerError(f"an input of shape {list(x.shape)}; expected [time, batch, n]")
    axis = 0 if node.flag("layout", 0) else 1
    if x.batch_axis is None:
        raise NoLayerError("its input has no batch dimension")
    if x.batch_axis != axis:
        if x.shape[axis] != 1:
            raise NoLayerError(f"the batch of its input {list(x.shape)} lies at dimension {x.batch_axis}, not {axis}")
        raise NoLayerError("it runs over the batch as if it were time")
    return replace(x, batch_axis=0)


def _fields(node: OnnxNode, direction: int) -> dict[str, Any]:
    """Fields of the layer of one direction."""
    pair = recurrent_pair(node.op)
    count, defaults = len(pair.activations), [default for _, default in pair.activations]
    names = node.get("activations", None) or defaults * 2
    names = names[direction * count : (direction + 1) * count] or defaults
    alphas, betas = list(node.get("activation_alpha", [])), list(node.get("activation_beta", []))
    ours = [_activation(n, alphas, betas) for n in names]
    fields: dict[str, Any] = {"units": node.weight(2, "R").shape[2], "use_bias": node.arg(3) is not None}
    for name, (field, _) in zip(ours, pair.activations, strict=False):
        if fields.setdefault(field, name) != name:
            raise NoLayerError(f"different functions of the cell and of its output ({names[1]}, {names[2]})")
    if node.op == "LSTM":
        fields["unit_forget_bias"] = False
    elif node.op == "GRU":
        fields["reset_after"] = node.flag("linear_before_reset", 0)
    return fields


def _activation(name: str, alphas: list[float], betas: list[float]) -> str:
    for ours, (theirs, alpha, beta) in recurrent_activations().items():
        if theirs.lower() == name.lower():
            stated = [
                values.pop(0) if values and number is not None else number
                for values, number in ((alphas, alpha), (betas, beta))
            ]
            numbers = zip(stated, (alpha, beta), strict=True)
            if all(a is None or d is None or abs(a - d) < 1e-6 for a, d in numbers):
                return ours
    raise NoLayerError(f"the activation {name} in a recurrent layer has no counterpart with these constants")


def _weights(node: OnnxNode, direction: int, fields: dict[str, Any]) -> dict[str, KnownArray]:
    op, units = node.op, fields["units"]
    w, r, bias = node.weight(1, "W"), node.weight(2, "R"), node.constant(3, "B")
    gates = len(recurrent_pair(op).gates)
    if w.shape[1] != gates * units or r.shape[1:] != (gates * units, units) or w.shape[0] <= direction:
        raise NoLayerError(f"W {list(w.shape)} and R {list(r.shape)} do not fit {gates} gates of {units} units")
    name = w.name
    weights = {
        "kernel": KnownArray(to_our_gates(op, w.array[direction]), name),
        "recurrent_kernel": KnownArray(to_our_gates(op, r.array[direction]), r.name),
    }
    if bias is not None:
        first, second = (to_our_gates(op, part[:, None])[0] for part in np.split(bias.array[direction], 2))
        both = np.stack([first, second]) if op == "GRU" and fields["reset_after"] else first + second
        weights["bias"] = KnownArray(both, bias.name)
    return weights


def _first_states(b: NetBuilder, node: OnnxNode, x: NetValue, directions: int) -> list[list[NetValue]]:
    """The first states of each direction as [batch, units]; none where they are zeros."""
    operands = [node.arg(5), node.arg(6)] if node.op == "LSTM" else [node.arg(5)]
    if all(o is None or _is_zero(b, o) for o in operands):
        return [[] for _ in range(directions)]
    units = node.weight(2, "R").shape[2]
    result: list[list[NetValue]] = [[] for _ in range(directions)]
    for operand in operands:
        for d in range(directions):
            result[d].append(_state(b, node, operand, d, directions, units, x))
    return result


def _is_zero(b: NetBuilder, operand: Operand) -> bool:
    if isinstance(operand, KnownArray):
        return operand.array.dtype != object and not operand.array.any()
    return b.is_zero(operand)


def _state(
    b: NetBuilder, node: OnnxNode, operand: Operand | None, direction: int, directions: int, units: int, x: NetValue
) -> NetValue:
    axis = 0 if not node.flag("layout", 0) else 1  # of the directions
    if operand is None:
        return b.parameter(KnownArray(np.zeros(units, np.float32)), x)
    if isinstance(operand, KnownArray):
        array = np.take(operand.array, direction, axis)
        if (array != array[:1]).any():
            raise NoLayerError("first states that differ from sample to sample are no constants")
        return b.parameter(KnownArray(array[0], operand.name), x)
    if operand.ndim != 3 or operand.extra or operand.batch_axis != 1 - axis:
        raise NoLayerError(f"first states of shape {list(operand.shape)}")
    # in the net [batch, directions, units]
    if directions > 1:
        part = b.make(layers.Slice, axes=[1], starts=[direction], stops=[direction + 1])
        operand = b.add(part, operand)
    return replace(b.reshape_dims(operand, (units,)), batch_axis=0)


def _reverse_steps(b: NetBuilder, x: NetValue) -> NetValue:
    """The steps from the last to the first."""
    steps = x.dims[0]
    return b.add(b.make(layers.Slice, axes=[1], starts=[-1], stops=[-steps - 1], steps=[-1]), x)


def _results(
    b: NetBuilder, node: OnnxNode, x: NetValue, sequences: Sequence[NetValue], states: Sequence[Sequence[NetValue]]
) -> list[Operand]:
    """ONNX' outputs: Y [time, directions, batch, units], Y_h and Y_c [directions, batch, units]; with ``layout`` 1 the
    batch comes first."""
    layout = node.flag("layout", 0)
    steps, units = sequences[0].dims
    outputs: list[Operand] = []
    is_read = [bool(n) and bool(b.reads.get(n, 0)) for n in (*node.outputs, "", "", "")]
    y = sequences[0]
    if is_read[0]:
        lifted = [b.reshape_dims(s, (steps, 1, units)) for s in sequences]
        y = lifted[0] if len(lifted) == 1 else b.add(layers.Concatenate(axis=2), *lifted)
        y = replace(y, batch_axis=0 if layout else 2)
    outputs.append(y)
    for number in range(len(states[0])):
        state = states[0][number]
        if is_read[1 + number]:
            lifted = [b.reshape_dims(s[number], (1, units)) for s in states]
            state = lifted[0] if len(lifted) == 1 else b.add(layers.Concatenate(axis=1), *lifted)
            state = replace(state, batch_axis=0 if layout else 1)
        outputs.append(state)
    return outputs[: max(len(node.outputs), 1)]
