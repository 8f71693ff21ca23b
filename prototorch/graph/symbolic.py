"""The functional API: building a net in Python from symbolic tensors.

x = pt.Input((1, 28, 28))
y = pt.layers.Dense(10)(pt.layers.Flatten()(x))
model = pt.Model(x, y)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from prototorch.engine.backends.device_name import name_of_device
from prototorch.engine.backends.device_scope import default_device
from prototorch.errors import UsageError
from prototorch.graph.input_spec import NetInput
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.operator_layers import as_layer_call
from prototorch.graph.symbolic_functions import Call, MinimizeCall, SymbolicCall, VariableCall, creation_order
from prototorch.graph.symbolic_operators import SymbolicOperators
from prototorch.layers.base import Layer
from prototorch.layers.channels import DataFormat
from prototorch.layers.weight_source import weight_source
from prototorch.schema import find_name_error
from prototorch.schema.neutral_arguments import explain_arguments, neutral
from prototorch.text.case_conversion import snake_case


class SymbolicTensor(SymbolicOperators):
    """One output of a layer, or an input of a net."""

    #: the net whose input it is, of which a model that begins with it takes over ``preprocess`` and ``augment``
    net: Net | None = None
    #: the name of the device on which a static graph takes an input
    input_device: str | None = None
    #: whether the input itself says so, and not ``with pt.device(...)`` around it
    is_placed = False

    def __init__(self, call: Call | None, index: int, input_node: InputNode | None = None):
        self.call, self.index, self.input_node = call, index, input_node
        self.number = next(creation_order)
        #: of an input, the shape of the arrays that it takes, batch dimension included; None: any
        self.fed_shape: tuple[int | None, ...] | None = None if input_node is None else (None, *input_node.shape)

    def __repr__(self) -> str:
        if self.call is None:
            shape = list(self.input_node.shape) if self.input_node is not None else "?"
            return f"<Input of shape {shape}>"
        return f"<output of {self.call.title}>"

    @staticmethod
    def call_function(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> SymbolicTensor:
        """The symbol of a function (of PyTorch's face, by name) of symbols and other values."""
        return SymbolicTensor(SymbolicCall(name, args, options), 0)

    def minimize_with(self, optimizer: Any, variables: Sequence[Any] | None) -> SymbolicTensor:
        """See `prototorch.optimizers.Optimizer.minimize`."""
        variables = [variables] if isinstance(variables, SymbolicTensor) else variables
        for variable in variables or ():
            if not isinstance(getattr(variable, "call", None), VariableCall):
                raise UsageError(
                    f"minimize: expected variables (pt.Variable), got {variable!r:.60}; without a list all trainable "
                    "variables and the weights of layers are changed"
                )
        return SymbolicTensor(MinimizeCall(optimizer, self, variables), 0)

    def apply_layer(self, layer: Layer, inputs: tuple[Any, ...]) -> Any:
        """Call a layer on symbolic tensors: one symbolic tensor, or a tuple of them."""
        if not all(isinstance(i, SymbolicTensor) for i in inputs):
            raise UsageError(
                f"{type(layer).__name__} is called with symbolic tensors and other values at the same time"
            )
        wrong = layer.input_count_error(len(inputs))
        if wrong is not None:
            hint = " (join them first, by pt.layers.Concatenate or Add)" if layer.input_range()[1] == 1 else ""
            raise UsageError(f"{layer!r}: {wrong}: {', '.join(map(repr, inputs))}{hint}")
        call = LayerCall(layer, inputs)
        outputs = tuple(SymbolicTensor(call, i) for i in range(layer.output_count()))
        return outputs if len(outputs) > 1 else outputs[0]


class LayerCall(Call):
    """A layer as it was called once."""

    def __init__(self, layer: Layer, inputs: tuple[SymbolicTensor, ...]):
        super().__init__()
        self.layer, self.inputs = layer, inputs

    @property
    def title(self) -> str:
        return repr(self.layer)


_INPUT_ARGUMENTS = {
    "batch_size": neutral(None, hint="a net takes batches of any size; give batch_size to fit"),
    "batch_shape": neutral(None, hint="shape leaves out the batch dimension"),
    "sparse": neutral(None, False, hint="arrays are dense"),
    "ragged": neutral(None, False, hint="arrays are dense: pad the sequences, and mask them"),
    "tensor": neutral(None, hint="give data to fit or predict"),
    "optional": neutral(False, hint="each input is needed"),
}


@explain_arguments(_INPUT_ARGUMENTS)
def Input(
    shape: Sequence[int | None],
    name: str | None = None,
    dtype: str | None = None,
    device: Any = None,
    *,
    data_format: DataFormat | None = None,
) -> SymbolicTensor:
    """An input of a net. ``shape`` leaves out the batch dimension; None is a size that is known when data are bound.

    dtype: default float32. device: where a static graph (`pt.Graph`) with this input runs; default that of
    ``with pt.device(...)``, else the graph's own. data_format: the axis of the channels, which images from files,
    preprocess and augment layers follow; default: the first axis for images and volumes, the last for tables and
    sequences.

    Raises UsageError for what is no shape, name, element type, device or data format.
    """
    declared = NetInput(name=name or "input", shape=shape, dtype=dtype or "float32", data_format=data_format)
    node = InputNode(name or "", declared.shape, declared.dtype, declared.data_format)
    symbol = SymbolicTensor(None, 0, node)
    symbol.input_device = default_device() if device is None else name_of_device(device)
    symbol.is_placed = device is not None
    return symbol


def build_net(inputs: Sequence[SymbolicTensor], outputs: Sequence[SymbolicTensor], name: str) -> Net:
    """The net between symbolic tensors. Raises UsageError where an output depends on an input that is not listed."""
    if not isinstance(name, str):
        raise UsageError(f"the model's name must be a string, not {name!r:.80}")
    for what, values in (("inputs", inputs), ("outputs", outputs)):
        if not values:
            raise UsageError(f"the model has no {what}: expected a symbolic tensor, or a list of them")
        for value in values:
            if not isinstance(value, SymbolicTensor):
                raise UsageError(
                    f"the model's {what} must be symbolic tensors (pt.Input(shape), or layer(x)), not {value!r:.80}"
                )
    error = find_name_error(name, is_title=True)
    if error is not None:
        raise UsageError(f"the model's name {name!r} {error}")
    outputs = _with_layers_alone(outputs)
    calls = {call.number: call for call in calls_before(outputs) if isinstance(call, LayerCall)}
    names = LayerNaming()
    input_names: dict[int, str] = {}
    input_nodes = []
    for i, symbol in enumerate(inputs):
        if symbol.input_node is None:
            raise UsageError(f"input {i} of the model is not an Input but the output of a layer")
        if symbol.is_placed:
            raise UsageError(
                f"{symbol!r} is on the device {symbol.input_device!r}, as inputs of a pt.Graph are; a model computes "
                "on that of model.compile(device=...)"
            )
        input_node = symbol.input_node
        name_here = names.take(input_node.name or ("input" if len(inputs) == 1 else f"input_{i + 1}"), "input")
        input_names[symbol.number] = name_here
        input_nodes.append(replace(input_node, name=name_here))
    nodes: list[LayerNode] = []
    names.reserve(call.layer.name for call in calls.values())
    weight_owners: dict[Any, str] = {}
    named_layers: set[int] = set()
    layer_outputs: dict[tuple[int, int], str] = {}
    for number, call in calls.items():
        layer = call.layer
        owner = weights_owner(layer)
        shared = weight_owners.get(owner)
        name_here = names.layer(layer, id(layer) in named_layers, weight_source(layer) is not None)
        named_layers.add(id(layer))
        if shared is None:
            weight_owners[owner] = layer.weights or name_here
        elif layer.weights != shared:
            layer = layer.replace(name=None, weights=shared)
        bottoms = []
        for s in call.inputs:
            source = layer_outputs.get((s.call.number, s.index)) if s.call is not None else input_names.get(s.number)
            if source is None:
                raise UsageError(f"{type(layer).__name__} reads an Input that is not among the model's inputs")
            bottoms.append(source)
        tops = top_names(name_here, layer.output_count())
        for i, top in enumerate(tops):
            layer_outputs[number, i] = top
        nodes.append(LayerNode(name_here, layer, tuple(bottoms), tops, called_layer=call.layer))
    output_names: list[str] = []
    for s in outputs:
        source = layer_outputs[s.call.number, s.index] if s.call is not None else input_names.get(s.number)
        if source is None:
            raise UsageError("an output of the model is an Input that is not among its inputs")
        output_names.append(source)
    return Net(name, tuple(input_nodes), tuple(nodes), tuple(output_names))


def calls_before(symbols: Iterable[SymbolicTensor]) -> list[Call]:
    """The calls that symbols depend on, in the order in which they were made."""
    calls: dict[int, Call] = {}
    pending = [s.call for s in symbols if s.call is not None]
    while pending:
        call = pending.pop()
        if call.number not in calls:
            calls[call.number] = call
            pending.extend(s.call for s in call.inputs if s.call is not None)
    return [calls[number] for number in sorted(calls)]


def _with_layers_alone(outputs: Sequence[SymbolicTensor]) -> list[SymbolicTensor]:
    """The symbols with layers in the place of functions (see `operator_layers`)."""
    replaced: dict[int, Any] = {}

    def current(value: Any) -> Any:
        if not isinstance(value, SymbolicTensor) or value.call is None or value.call.number not in replaced:
            return value
        results = replaced[value.call.number]
        return results[value.index] if isinstance(results, tuple) else results

    for call in calls_before(outputs):
        inputs = tuple(current(x) for x in call.inputs)
        if isinstance(call, SymbolicCall):
            replaced[call.number] = as_layer_call(SymbolicCall(call.name, tuple(map(current, call.args)), call.options))
        elif not isinstance(call, LayerCall):
            raise UsageError(
                f"a {call.title} belongs to a pt.Graph; a model has layers (pt.layers.Variable is a weight)"
            )
        elif any(a is not b for a, b in zip(inputs, call.inputs, strict=True)):
            replaced[call.number] = inputs[0].apply_layer(call.layer, inputs)
    return [current(s) for s in outputs]


def net_symbols(net: Net) -> dict[str, SymbolicTensor]:
    """Symbolic tensors of the inputs and of all outputs of layers of a net, by name. Their layers have its weights."""
    values: dict[str, SymbolicTensor] = {}
    for input_node in net.inputs:
        symbol = values[input_node.name] = SymbolicTensor(None, 0, input_node)
        symbol.net = net if input_node is net.inputs[0] else None
    for node in net.nodes:
        layer = node.layer.replace(name=node.name)
        call = LayerCall(layer, tuple(values[name] for name in node.bottoms))
        values.update({top: SymbolicTensor(call, index) for index, top in enumerate(node.tops)})
    return values


def inputs_by_name(names: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The inputs on which outputs depend, by their names in the model that they come from; other values as they are."""
    nodes_by_name: dict[str, SymbolicTensor] = {}
    pending, seen = [s for s in outputs if isinstance(s, SymbolicTensor)], set()
    while pending:
        symbol = pending.pop()
        if symbol.input_node is not None:
            nodes_by_name[symbol.input_node.name] = symbol
        elif symbol.call is not None and symbol.call.number not in seen:
            seen.add(symbol.call.number)
            pending.extend(symbol.call.inputs)
    missing = [name for name in names if isinstance(name, str) and name not in nodes_by_name]
    if missing:
        raise UsageError(f"the model's outputs depend on no input {missing[0]!r}; they read {', '.join(nodes_by_name)}")
    return [nodes_by_name[name] if isinstance(name, str) else name for name in names]


def weights_owner(layer: Layer) -> Any:
    """What layers with the same weights have in common: the place of the weights in a model, or the object itself."""
    source = weight_source(layer)
    return id(layer) if source is None else (id(source.variables), source.prefix)


def top_names(name: str, outputs: int) -> tuple[str, ...]:
    """The names of a layer's outputs: its own for the first, with a number for each further one."""
    return (name, *(f"{name}:{i}" for i in range(1, outputs)))


class LayerNaming:
    """Names for layers that have none: the type and a number."""

    def __init__(self) -> None:
        self.used_names: set[str] = set()
        self.reserved_names: set[str] = set()
        self.counts: dict[str, int] = {}

    def reserve(self, names: Iterable[str | None]) -> None:
        """Names that some layers bear, and that no other gets."""
        self.reserved_names.update(name for name in names if name is not None)

    def take(self, name: str, what: str) -> str:
        if name in self.used_names:
            raise UsageError(f"two {what}s are named {name!r}; give one another name")
        self.used_names.add(name)
        return name

    def layer(self, layer: Layer, again: bool, is_of_model: bool) -> str:
        """The name of a layer's call. again: it was called before; is_of_model: a model has given it its name, so that
        it may get another one here."""
        if layer.name is not None and not again and not (is_of_model and layer.name in self.used_names):
            return self.take(layer.name, "layer")
        stem = layer.name or snake_case(type(layer).__name__)
        while True:
            self.counts[stem] = self.counts.get(stem, 0) + 1
            name = f"{stem}_{self.counts[stem]}"
            if name not in self.used_names | self.reserved_names:
                self.used_names.add(name)
                return name
