"""Recurrent layers: ONNX' LSTM, GRU and RNN where they can do it, else a Scan over the steps.

ONNX' ops know neither masks nor all activations; a Scan runs the cell, written in ops, step by step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.counterparts.onnx.row import RecurrentPair
from prototorch.interop.onnx import onnx_package
from prototorch.interop.onnx.export.graph_builder import GraphBuilder
from prototorch.interop.onnx.export.layer_table import LayerExport, exports_layer
from prototorch.interop.onnx.export.ops_shape import flip_arguments
from prototorch.interop.onnx.export.walker import OpExport, OpWalker, exports_op, keeps_op
from prototorch.interop.onnx.op_pairs import op_pairs, pair_of_layer, reductions_by_our_op
from prototorch.interop.onnx.recurrent_gates import recurrent_activations, to_onnx_gates
from prototorch.interop.symbolic_batch import record_function
from prototorch.layers.recurrent import fused_activation_name
from prototorch.ops.elementwise import where

# ---------------------------------------------------------------- layers


@exports_layer(*(layer for pair in op_pairs() if isinstance(pair, RecurrentPair) for layer in pair.layers))
def _recurrent(export: LayerExport) -> bool:
    layer: Any = export.layer
    if export.has_mask or not _is_known(layer):
        return False
    y, *last = _sequence(export, [layer], [""], export.inputs[1:])
    if layer.return_sequences:
        whole = export.emit("Squeeze", [y, export.integers([1])])
        if layer.go_backwards:  # ONNX gives the steps in the input's order
            whole = export.emit("Slice", [whole, *flip_arguments(export, [0])])
        export.result("Transpose", [whole], {"perm": [1, 0, 2]})
    else:
        export.result("Squeeze", [last[0], export.integers([0])])
    if layer.return_state:
        for index, state in enumerate(last, start=1):
            export.result("Squeeze", [state, export.integers([0])], index=index)
    return True


@exports_layer(layers.Bidirectional)
def _bidirectional(export: LayerExport) -> bool:
    layer: Any = export.layer
    both = layer.directions()
    if (
        export.has_mask
        or type(both[0]) is not type(both[1])
        or not isinstance(pair_of_layer(type(both[0])), RecurrentPair)
    ):
        return False
    if both[0].units != both[1].units:
        return False
    if (
        both[0].go_backwards
        or not all(map(_is_known, both))
        or getattr(both[0], "reset_after", 0) != getattr(both[1], "reset_after", 0)
    ):
        return False
    y, *last = _sequence(export, list(both), ["forward_layer/", "backward_layer/"], export.inputs[1:])
    units = both[0].units
    if both[0].return_sequences:
        stacked = export.emit("Transpose", [y], {"perm": [2, 0, 1, 3]})  # [time, directions, batch, units]
    else:
        stacked = export.emit("Transpose", [last[0]], {"perm": [1, 0, 2]})
    axis = 2 if both[0].return_sequences else 1
    if layer.merge_mode is None:
        for index in (0, 1):
            position = export.constant(np.array(index, np.int64), "direction")
            export.result("Gather", [stacked, position], {"axis": axis}, index=index)
    elif layer.merge_mode == "concat":
        export.result("Reshape", [stacked, export.integers([*[0] * axis, 2 * units])])
    else:
        _reduce(export, _MERGE_OPS[layer.merge_mode], stacked, axis)
    if both[0].return_state:
        first = 2 if layer.merge_mode is None else 1
        for direction in (0, 1):
            for number, state in enumerate(last):
                position = export.constant(np.array(direction, np.int64), "direction")
                export.result("Gather", [state, position], {"axis": 0}, index=first + direction * len(last) + number)
    return True


#: our op that joins the two directions, by the field ``merge_mode``
_MERGE_OPS = {"sum": "sum", "mul": "prod", "ave": "mean"}


def _reduce(export: LayerExport, our_op: str, name: str, axis: int) -> None:
    pair = reductions_by_our_op()[our_op]
    if export.builder.opset >= pair.axes_input:
        export.result(pair.name, [name, export.integers([axis])], {"keepdims": 0})
    else:
        export.result(pair.name, [name], {"axes": [axis], "keepdims": 0})


def _is_known(layer: Any) -> bool:
    names = [fused_activation_name(layer.activation)]
    if hasattr(layer, "recurrent_activation"):
        names.append(fused_activation_name(layer.recurrent_activation))
    return all(name in recurrent_activations() for name in names)


def _sequence(export: LayerExport, directions: list[Any], prefixes: list[str], first: Any) -> list[str]:
    """The node: all steps [time, directions, batch, units], and the last states [directions, batch, units] each."""
    pair = pair_of_layer(type(directions[0]))
    assert isinstance(pair, RecurrentPair)
    op = pair.name
    parts = [_arrays(export, op, layer, prefix) for layer, prefix in zip(directions, prefixes, strict=True)]
    arrays = [np.stack(each).astype(np.float32) for each in zip(*parts, strict=True)]
    x = export.emit("Transpose", [export.inputs[0]], {"perm": [1, 0, 2]})
    names = [x, *(export.weight(n, a) for n, a in zip("WRB", arrays, strict=True))]
    states = directions[0].states
    if first:
        names += ["", *(_first_states(export, first[i::states]) for i in range(states))]
    direction = "bidirectional" if len(directions) == 2 else "reverse" if directions[0].go_backwards else "forward"
    attributes = {"hidden_size": directions[0].units, "direction": direction, **_activations(pair, directions)}
    if op == "GRU":
        attributes["linear_before_reset"] = int(directions[0].reset_after)
    return export.emit_all(op, names, 1 + states, attributes)


def _first_states(export: LayerExport, names: Any) -> str:
    """Some states [batch, units] as [directions, batch, units]."""
    whole = [export.emit("Unsqueeze", [name, export.integers([0])]) for name in names]
    return whole[0] if len(whole) == 1 else export.emit("Concat", whole, {"axis": 0})


def _arrays(export: LayerExport, op: str, layer: Any, prefix: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, R and B of one direction."""
    kernel, recurrent = export.array(f"{prefix}kernel"), export.array(f"{prefix}recurrent_kernel")
    assert kernel is not None
    assert recurrent is not None
    biases = np.zeros((2, kernel.shape[1]), np.float32)
    bias = export.array(f"{prefix}bias")
    if bias is not None:
        biases[: len(np.atleast_2d(bias))] = bias
    return (
        to_onnx_gates(op, kernel),
        to_onnx_gates(op, recurrent),
        np.concatenate([to_onnx_gates(op, b) for b in biases]),
    )


def _activations(pair: RecurrentPair, directions: list[Any]) -> dict[str, Any]:
    """The attributes that say what the gates and the states go through; none where they are ONNX' own."""
    activation_names = recurrent_activations()
    names = [
        activation_names[str(fused_activation_name(getattr(d, name)))]
        for d in directions
        for name, _ in pair.activations
    ]
    if all(activation.name == default for activation, (_, default) in zip(names, pair.activations * 2, strict=False)):
        return {}
    attributes: dict[str, Any] = {"activations": [activation.name for activation in names]}
    alpha = [float(n.alpha) for n in names if n.alpha is not None]
    beta = [float(n.beta) for n in names if n.beta is not None]
    return attributes | ({"activation_alpha": alpha} if alpha else {}) | ({"activation_beta": beta} if beta else {})


# ---------------------------------------------------------------- ops


@exports_op("lstm_sequence", "gru_sequence", "simple_rnn_sequence")
def _scan(export: OpExport) -> None:
    """A Scan over the steps, whose body is the cell; a step that the mask leaves out keeps the states."""
    op: Any = export.node.op
    attributes = dict(export.node.attrs)
    masked, reverse = attributes.pop("masked", False), attributes.pop("reverse", False)
    steps, *rest = range(len(export.inputs))
    weights, states = rest[: op.weights], rest[op.weights : op.weights + op.states]
    scan_inputs = [steps, *([rest[-1]] if masked else [])]

    def cell(graph: Any, values: list[Any]) -> Any:
        before, (x, *mask), fixed = (
            values[: op.states],
            values[op.states : op.states + len(scan_inputs)],
            values[-op.weights :],
        )
        after = op.cell(x, fixed, before, **attributes)
        if mask:
            after = [where(mask[0][:, None], new, old) for new, old in zip(after, before, strict=True)]
        return after

    order = [*states, *scan_inputs, *weights]
    dims = [export.dims(i) for i in order]
    for i in range(len(states), len(states) + len(scan_inputs)):
        dims[i] = (dims[i][0], *dims[i][2:])  # one step
    recording = record_function(
        cell, dims, [export.inputs[i].dtype for i in order], lambda name: keeps_op(name, export.opset)
    )
    body = GraphBuilder(export.opset, outer=export.builder)
    inner = OpWalker(body, recording, {})
    for value, index in zip(recording.inputs[-len(weights) :], weights, strict=True):
        inner.bind(value, export.name(index))
    helper = onnx_package("onnx.helper")
    declared = []
    for value in recording.inputs[: len(states) + len(scan_inputs)]:
        name = body.unique_name(f"{export.scope}/step")
        inner.bind(value, name)
        element = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
        declared.append(helper.make_tensor_value_info(name, element, None))
    body.batch_source(inner.name(recording.inputs[0]))
    inner.write_all(export.scope, recording.outputs)
    results = []
    for value in [*recording.outputs, *recording.outputs]:  # the states, and each once more as what is collected
        name = body.unique_name(f"{export.scope}/state")
        body.emit("Identity", [inner.name(value)], [name], export.scope)
        results.append(
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), None)
        )
    graph = helper.make_graph(body.nodes, f"{export.scope}/step", declared, results)
    names = [export.walker.output_name(v, f"{export.scope}/Scan") for v in export.node.outputs]
    sequence, last, others = names[0], names[1 : 1 + len(states)], names[1 + len(states) :]
    export.builder.emit("Scan", [export.name(i) for i in (*states, *scan_inputs)], [*last, sequence, *others],
                        export.scope, {"body": graph, "num_scan_inputs": len(scan_inputs),
                                       "scan_input_axes": [1] * len(scan_inputs),
                                       "scan_input_directions": [int(reverse)] * len(scan_inputs),
                                       "scan_output_axes": [1] * len(states)})  # fmt: skip
