"""A net as the fields of a text: the expanded form, which reads back equal."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.graph.connect import loss_outputs
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.symbolic import top_names
from prototorch.layers.base import Layer
from prototorch.layers.channels import DataFormat
from prototorch.schema.family import import_of
from prototorch.text.name_resolution import string_values
from prototorch.text.syntax_tree import Body, Field, Word, to_value_node


def net_fields(net: Net, sections: Sequence[Field] = ()) -> list[Field]:
    """The fields that declare the net. A `bottom` is left out where it is the layer before; a ``data_format`` that the
    inputs and layers share is one line; `output` is left out where it is the last layer, unless a loss is at another.

    sections: the blocks that follow in the text. A loss at an inner layer makes it an output where none is named."""
    fields = [Field("name", to_value_node(net.name))]
    common = _common_data_format(net)
    if common is not None:
        fields.append(Field("data_format", Word(common)))
    layers_used = (*net.preprocess, *net.augment, *(node.layer for node in net.nodes))
    imported = filter(None, (import_of(type(layer)) for layer in layers_used))
    fields += [Field("import", to_value_node(name)) for name in dict.fromkeys((*net.imports, *imported))]
    for declared in net.inputs:
        inside = [Field("name", to_value_node(declared.name)), Field("shape", to_value_node(list(declared.shape)))]
        if declared.dtype != "float32":
            inside.append(Field("dtype", to_value_node(declared.dtype)))
        if declared.data_format not in (None, common):
            inside.append(Field("data_format", Word(declared.data_format)))
        fields.append(Field("input", Body(tuple(inside))))
    for name, layers in (("preprocess", net.preprocess), ("augment", net.augment)):
        if layers:
            fields.append(layers_field(name, [_less_data_format(layer, common) for layer in layers]))
    if net.class_names:
        fields.append(Field("class_names", to_value_node(list(net.class_names))))
    before = net.inputs[0].name if len(net.inputs) == 1 else None
    for one in net.nodes:
        fields.append(layer_field(one, _less_data_format(one.layer, common), before))
        before = one.tops[0]
    if net.outputs != (before,) or _has_inner_loss(net, sections):
        fields.append(Field("output", to_value_node(net.outputs[0] if len(net.outputs) == 1 else list(net.outputs))))
    return fields


def _has_inner_loss(net: Net, sections: Sequence[Field]) -> bool:
    bodies = [f.value for f in sections if f.name == "compile" and isinstance(f.value, Body)]
    return any(not {*string_values(g.value)} <= {*net.outputs} for body in bodies for g in loss_outputs(body))


def _common_data_format(net: Net) -> DataFormat | None:
    """The ``data_format`` that a line of the text can state for all inputs and layers; None where there is none."""
    formats = {i.data_format for i in net.inputs}
    if len(formats) != 1 or (stated := formats.pop()) is None:
        return None
    layers = [*net.preprocess, *net.augment, *(node.layer for node in net.nodes)]
    same = all(_less_data_format(layer, stated).with_data_format(stated) == layer for layer in layers)
    return stated if same else None


def _less_data_format(layer: Layer, data_format: DataFormat | None) -> Layer:
    return layer if data_format is None else layer.without_data_format(data_format)


def layers_field(name: str, layers: Sequence[Layer]) -> Field:
    """The block ``preprocess`` or ``augment`` of these layers."""
    return Field(name, Body(tuple(_block_field(layer, layer.to_fields()) for layer in layers)))


def layer_field(one: LayerNode, layer: Layer, before: str | None = None) -> Field:
    """The field that declares a layer of a net. before: the output of the layer before it, which is not stated."""
    inside = [Field("name", to_value_node(one.name))]
    if one.bottoms != (before,):
        inside.append(Field("bottom", to_value_node(one.bottoms[0] if len(one.bottoms) == 1 else list(one.bottoms))))
    if one.tops != top_names(one.name, len(one.tops)):
        inside.append(Field("top", to_value_node(one.tops[0] if len(one.tops) == 1 else list(one.tops))))
    return _block_field(layer, [*inside, *(f for f in layer.to_fields() if f.name != "name")])


def _block_field(layer: Layer, fields: list[Field]) -> Field:
    return Field(layer.name_in_text(), Body(tuple(fields)))
