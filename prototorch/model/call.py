"""Calling a model: on symbolic tensors it becomes a part of another net, on tensors and arrays it runs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from prototorch.data.frames import holds_frame, read_frames
from prototorch.data.pipeline.frame_tables import open_frame
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.data.pipeline.source import encode_texts
from prototorch.data.pipeline.tables import encode_rows
from prototorch.eager.dtype import as_dtype
from prototorch.eager.fed_values import fed_array
from prototorch.eager.functions.conversion import from_numpy
from prototorch.eager.layer_call import training as training_phase
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace
from prototorch.errors import UsageError
from prototorch.graph.net import InputNode, Net
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.spec import Spec
from prototorch.train.data_signature import text_inputs

__all__ = ["call_net"]


def call_net(
    net: Net,
    inputs: Sequence[Any],
    training: bool,
    build: Callable[[Mapping[str, Spec]], Any],
    signature: Callable[[], ModelSignature],
) -> Any:
    """The outputs of a model's net for inputs; see `prototorch.model.model.Model.__call__`. build: creates the weights
    for inputs of these specs. signature: what the model expects of data, for the columns of a table."""
    whole = inputs[0] if len(inputs) == 1 else list(inputs)
    if holds_frame(whole, [node.name for node in net.inputs]):
        expected = signature().without_targets
        rows = open_frame(whole, None, None, expected)
        if rows is None:
            inputs = (read_frames(whole, None, expected, f"the model {net.name!r}")[0],)
        else:
            table = encode_rows(rows, expected)
            inputs = ({node.name: table.column_array(node.name) for node in net.inputs},)
    values = _inputs_by_name(net, inputs)
    if any(isinstance(v, SymbolicTensor) for v in values.values()):
        if not all(isinstance(v, SymbolicTensor) for v in values.values()):
            raise UsageError(f"{net.name!r} is called with symbolic tensors and other values at the same time")
        return _run_layers(net, values)
    if net.tokenizers():
        values = encode_texts(partial(text_inputs, net), [node.name for node in net.inputs], values)
    values = {node.name: _as_tensor(node, values[node.name]) for node in net.inputs}
    with training_phase(training):
        values = _preprocess(net, values)
        build({name: Spec(tuple(v.shape), v.dtype) for name, v in values.items()})
        return _run_layers(net, values, is_preprocessed=True)


def _inputs_by_name(net: Net, inputs: Sequence[Any]) -> dict[str, Any]:
    names = [node.name for node in net.inputs]
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        arrays = dict(inputs[0])
    else:
        whole = len(inputs) == 1 and isinstance(inputs[0], list | tuple) and len(names) > 1
        row = list(inputs[0]) if whole else list(inputs)
        arrays = dict(zip(names, row, strict=False)) if len(row) == len(names) else dict(enumerate(row))
    if set(arrays) != set(names):
        raise UsageError(
            f"the model {net.name!r} takes {len(names)} input{'s' * (len(names) != 1)} ({', '.join(names)}), got "
            f"{', '.join(map(str, arrays)) if isinstance(inputs[0] if inputs else None, Mapping) else len(arrays)}"
        )
    return arrays


def _as_tensor(node: InputNode, value: Any) -> Tensor:
    """An input as a tensor. Raises UsageError for elements that the input's dtype cannot hold; a tensor is taken as it
    is where it computes the same, as float64 in the place of float32."""
    receiver = f"the input {node.name!r}"
    if isinstance(value, Tensor):
        is_whole = not as_dtype(node.dtype).is_floating_point
        is_readable = value.interpreter.has_memory and value.device.type == "cpu" and active_trace.get() is None
        if is_whole and value.spec.is_float and is_readable:
            return from_numpy(fed_array(value, node.dtype, receiver))
        return value
    return from_numpy(fed_array(value, node.dtype, receiver))


def _preprocess(net: Net, values: dict[str, Any]) -> dict[str, Any]:
    """The values with the first input preprocessed."""
    values = dict(values)
    for layer in net.preprocess:
        values[net.inputs[0].name] = layer(values[net.inputs[0].name])
    return values


def _run_layers(net: Net, values: dict[str, Any], is_preprocessed: bool = False) -> Any:
    values = values if is_preprocessed else _preprocess(net, values)
    for node in net.nodes:
        results = node.layer(*(values[name] for name in node.bottoms))
        values.update(zip(node.tops, results if isinstance(results, tuple) else (results,), strict=True))
    outputs = tuple(values[name] for name in net.outputs)
    return outputs if len(outputs) > 1 else outputs[0]
