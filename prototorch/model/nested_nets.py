"""``Net("lenet", weights: "fashion-mnist")`` in a text: another model's net as a layer, made plain layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from prototorch.errors import UsageError
from prototorch.graph.net_writer import layer_field, layers_field
from prototorch.graph.subnet import find_outputs, subnet
from prototorch.layers.base import Layer
from prototorch.model.nested_sources import ReadNet, read_source
from prototorch.model.net_use import OWN_WEIGHTS, NetUse
from prototorch.schema.types import text_name
from prototorch.text.includes import IncludeError
from prototorch.text.nested_net import NestedNet, NestedNetReader, NetRequest
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    Body,
    Field,
    to_python_value,
    to_value_node,
)

__all__ = ["NESTED_NET_READER", "read_nested_net"]


def read_nested_net(request: NetRequest) -> NestedNet | None:
    """See `NestedNetReader`."""
    own = {text_name(name) for name in NetUse.specs()} | {*NetUse.foreign_fields}
    fields = {f.name: f for f in request.fields}
    use = NetUse.from_fields([f for f in request.fields if f.name in own], request.report, request.span)
    wiring = ("bottom", "top", "params")
    params = _params(request, [f for f in request.fields if f.name not in own and f.name not in wiring])
    if use is None or params is None:
        return None
    try:
        read = read_source(request, use.source, params)
        outputs = None if read is None else _outputs(use, read)
    except (IncludeError, UsageError) as error:
        is_output = isinstance(error, UsageError)
        f = fields.get("output" if is_output else "source")
        request.report.add(str(error), request.span if f is None else f.value.span or f.span)
        return None
    if read is None or outputs is None:
        return None
    net = subnet(read.net, outputs)
    label = request.choose_label(use.name, read.stem)
    key = use.shared_weights or label
    layers = tuple(
        _with_place(layer_field(node, _with_names_below(node.layer, key)), node.span or request.span)
        for node in net.nodes
    )
    weights = _weights(request, use, read, len(net.nodes) < len(read.net.nodes), key, fields)
    has_first = bool(net.inputs) and net.inputs[0] == read.net.inputs[0]
    return NestedNet(
        read.title,
        label,
        tuple(i.name for i in net.inputs),
        0 if has_first else None,
        layers,
        tuple(outputs),
        fields.get("bottom"),
        fields.get("top"),
        _settings(use, fields),
        _with_place(layers_field("preprocess", read.net.preprocess), request.span) if read.net.preprocess else None,
        read.net.preprocess,
        weights,
        read.unused,
        request.span,
    )


NESTED_NET_READER = NestedNetReader(read_nested_net)


# ---------------------------------------------------------------------- what a use says


def _params(request: NetRequest, fields: Sequence[Field]) -> dict[str, Field] | None:
    """The fields of a use that set params of the text, by name; None after a mistake."""
    block = next((f for f in request.fields if f.name == "params"), None)
    if block is not None and not isinstance(block.value, Body):
        message = "params is a block with a value for each param: params { classes: 10 }."
        request.report.add(message, block.value.span or block.span)
        return None
    inside = block.value.fields if block is not None else ()
    params: dict[str, Field] = {}
    for f in (*fields, *inside):
        if f.name in params:
            request.report.add(f"Net.{f.name} is given twice.", f.name_span)
            return None
        if f.name:
            params[f.name] = f
    return params


def _outputs(use: NetUse, read: ReadNet) -> tuple[str, ...]:
    """The outputs of a net that a use takes, in its order. Raises UsageError for a name that there is not."""
    if not use.output:
        return read.main_outputs
    outputs: list[str] = []
    for pattern in use.output:
        try:
            outputs += [name for name in find_outputs(read.net, [pattern]) if name not in outputs]
        except UsageError as error:
            raise UsageError(f"{read.title} has no layer {pattern!r}: {error}") from None
    return tuple(outputs)


def _settings(use: NetUse, fields: Mapping[str, Field]) -> tuple[Field, ...]:
    """The fields of a use that count for all layers in it."""
    settings = [fields[name] for name in ("trainable", "lr_mult", "decay_mult") if name in fields]
    if use.shared_weights is not None:
        settings.append(replace(fields["shared_weights"], name="weights"))
    return tuple(settings)


def _with_names_below(layer: Layer, key: str) -> Layer:
    """A layer whose names of shared weights are below that of the net's weights."""
    changes: dict[str, Any] = {}
    if layer.weights is not None:
        changes["weights"] = f"{key}/{layer.weights}"
    if layer.share:
        changes["share"] = tuple(s.replace(source=f"{key}/{s.source}") for s in layer.share)
    return layer.replace(**changes) if changes else layer


def _weights(
    request: NetRequest, use: NetUse, read: ReadNet, is_part: bool, key: str, fields: Mapping[str, Field]
) -> tuple[Field, ...]:
    """The ``weights`` blocks that load into the layers of a use; they are relative to the main file."""
    at = request.main_span
    if use.weights is None:
        return ()
    if use.weights == OWN_WEIGHTS and read.saved_file is None:
        return tuple(_moved_weights(f, key, read, is_part, at) for f in read.weights)
    source = read.saved_file if use.weights == OWN_WEIGHTS else use.weights
    values: dict[str, Any] = {"source": source, "into": key, "model": read.net.name}
    if use.digest is not None:
        values["digest"] = use.digest
    if use.except_:
        values["except"] = list(use.except_)
    if is_part:
        values["partial"] = True
    return (_block("weights", values, at),)


def _moved_weights(f: Field, key: str, read: ReadNet, is_part: bool, at: Span | None) -> Field:
    """A ``weights`` block of a text, as one that loads into its layers where they are used."""
    values = {g.name: g.value for g in f.value.fields}
    values["source"] = to_python_value(values.get("source"))
    into = values.get("into")
    values["into"] = f"{key}/{to_python_value(into)}" if into is not None else key
    values.setdefault("model", read.net.name)
    if is_part:
        values["partial"] = True
    return _block("weights", values, at)


def _block(name: str, values: Mapping[str, Any], at: Span | None) -> Field:
    body = tuple(Field(key, to_value_node(value, at), at, at) for key, value in values.items())
    return Field(name, Body(body, at), at, at)


def _with_place(f: Field, at: Span | None) -> Field:
    """A field whose mistakes are shown at a place."""
    return replace(f, span=at, name_span=at)
