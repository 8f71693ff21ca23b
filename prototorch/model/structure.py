"""The structure of a model, as functions of its net: layers by name, the weights that layers bring along, freezing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from prototorch.data.table_columns import TableColumns
from prototorch.eager.layer_call import adopt_eager_weights
from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.net import LayerNode, Net, in_input_format
from prototorch.graph.subnet import find_outputs, subnet
from prototorch.graph.symbolic import SymbolicTensor, build_net, inputs_by_name
from prototorch.graph.trace import Trace
from prototorch.layers.base import Layer
from prototorch.layers.weight_source import WeightSource, set_weight_source, weight_source
from prototorch.model.keras_hints import KERAS_MEMBERS
from prototorch.runtime.variables import Variables
from prototorch.schema.patterns import check_matches
from prototorch.train.config import Compile, Fit

__all__ = [
    "attribute_error",
    "check_layers",
    "check_patterns",
    "class_names",
    "enter_weight_sources",
    "find_layer",
    "layer_of",
    "net_of_symbols",
    "part_of",
    "share_inner_weights",
    "share_weights",
    "trained_columns",
    "unfreeze_in",
]


def net_of_symbols(inputs: Any, outputs: Any, name: str, preprocess: Sequence[Layer], augment: Sequence[Layer]) -> Net:
    """The net between symbolic tensors, each of them or lists of them; symbols of another model bring its preprocessing
    along. Raises UsageError without outputs."""
    if isinstance(inputs, Net):
        net = inputs
    elif outputs is None:
        raise UsageError("Model: expected inputs and outputs, got inputs alone")
    else:
        symbols: list[SymbolicTensor] = inputs_by_name(_as_list(inputs), _as_list(outputs))
        net = build_net(symbols, _as_list(outputs), name)
        if symbols[0].net is not None and not (preprocess or augment):
            preprocess, augment = symbols[0].net.preprocess, symbols[0].net.augment
        net = replace(net, nodes=tuple(replace(node, layer=layer_of(node)) for node in net.nodes))
    if not preprocess and not augment:
        return net
    follow = partial(in_input_format, inputs=net.inputs)
    return replace(net, preprocess=follow(preprocess), augment=follow(augment))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def layer_of(node: LayerNode) -> Layer:
    """The layer of a node, with the node's name."""
    return node.layer if node.layer.name == node.name else node.layer.replace(name=node.name)


def find_layer(net: Net, name: str | None, index: int | None) -> LayerNode:
    """A layer of a net by its name or its index. Raises UsageError where there is none."""
    if (name is None) == (index is None):
        raise UsageError("get_layer: expected either a name or an index")
    names = [node.name for node in net.nodes]
    if index is not None:
        if not -len(names) <= index < len(names):
            raise UsageError(f"there is no layer {index}; the model has {len(names)} layers")
        return net.nodes[index]
    if name not in names:
        raise UsageError(f"the model has no layer {name!r}.{did_you_mean(str(name), names)}")
    return net.node(str(name))


def part_of(net: Net, output: str | Sequence[str]) -> Net:
    """The net from the inputs to the layers of these names or patterns. Raises UsageError for what matches no layer."""
    patterns: list[Any] = list(output) if isinstance(output, list | tuple) else [output]
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f"submodel: expected the name of a layer, or several, not {output!r:.80}")
    return subnet(net, find_outputs(net, patterns))


def class_names(net: Net, block: Fit | None, table: TableColumns) -> tuple[str, ...]:
    """The names of the classes: those of the data that the model was trained on, else of its weight set. table: what it
    knows of the columns of its data."""
    names = () if block is None or block.data is None else tuple(block.data.classes)
    return names or (() if table.encoding is None else table.encoding.classes) or net.class_names


def trained_columns(recorded: TableColumns, block: Fit | None) -> TableColumns:
    """The names of the columns that a model was trained on: those that its training has recorded, else those that the
    data of its fit block name, as in files of older versions."""
    data = None if block is None else block.data
    if recorded.has_features or data is None or not all(isinstance(name, str) for name in data.features):
        return recorded
    return TableColumns(tuple(map(str, data.features)), tuple(name for name in data.label if isinstance(name, str)))


def attribute_error(cls: type, name: str) -> AttributeError:
    """The error for a member that a model does not have, with what to use instead."""
    if name.startswith("_"):
        return AttributeError(f"{cls.__name__} has no attribute {name!r}")
    hint = KERAS_MEMBERS.get(name)
    names = [n for n in dir(cls) if not n.startswith("_")]
    return AttributeError(
        f"{cls.__name__} has no attribute {name!r}{f': {hint}' if hint else f'.{did_you_mean(name, names)}'}"
    )


def share_weights(net: Net, variables: Variables) -> None:
    """Take the weights that layers of other models bring along, and enter these layers for models to come."""
    for node in net.nodes:
        own = WeightSource(variables, f"{node.weights_key}/")
        called_layer = node.called_layer
        if called_layer is not None:
            source = weight_source(called_layer)
            if source is None:
                set_weight_source(called_layer, own)
                adopt_eager_weights(called_layer, own)
            else:
                variables.share(own.prefix, *source)
        if weight_source(node.layer) is None:
            set_weight_source(node.layer, own)


def share_inner_weights(net_trace: Trace, variables: Variables) -> None:
    """As `share_weights` for layers inside others (`TimeDistributed`), whose prefixes a trace tells."""
    for prefix, layer in net_trace.inner_layers.items():
        source = weight_source(layer)
        if source is None:
            set_weight_source(layer, WeightSource(variables, prefix))
        elif source.variables is not variables:
            variables.share(prefix, *source)
        elif source.prefix != prefix:
            raise UsageError(
                f"one {type(layer).__name__} object is used as {source.prefix.rstrip('/')!r} and as "
                f"{prefix.rstrip('/')!r}: layers inside others share no weights within one model; make two objects"
            )


def enter_weight_sources(net: Net, variables: Variables) -> None:
    """Enter the layers of a changed net, whose weights are these, for models to come."""
    for node in net.nodes:
        set_weight_source(node.layer, WeightSource(variables, f"{node.weights_key}/"))


def check_patterns(patterns: Sequence[str], method: str) -> None:
    """Raise UsageError, with the method's name, unless there are patterns, and all are strings."""
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f'{method}: expected names or patterns of layers, e.g. {method}("stage1/**", "conv*")')


def check_layers(net: Net, patterns: Sequence[str]) -> None:
    """Raise UsageError for a pattern that matches no layer."""
    names = [name for node in net.nodes for name in {node.name, node.weights_key}]
    for pattern in patterns:
        try:
            check_matches(pattern, names, "layer")
        except UsageError as error:
            raise UsageError(f"the model has no layer {pattern!r}: {error}") from None


def unfreeze_in(block: Compile | None, patterns: Sequence[str]) -> Compile | None:
    """A compile block whose ``freeze`` leaves out what these patterns match."""
    if block is None or not block.freeze:
        return block
    return block.replace(freeze=(*block.freeze, *(f"!{pattern}" for pattern in patterns)))
