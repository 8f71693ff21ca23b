"""A net as the fields of a text: the expanded form, which reads back equal."""

from __future__ import annotations

from prototorch.graph.net import LayerNode, Net
from prototorch.graph.symbolic import top_names
from prototorch.layers.base import Layer
from prototorch.schema.family import import_of
from prototorch.text.syntax_tree import Body, Field, to_value_node


def net_fields(net: Net) -> list[Field]:
    """The fields that declare the net. A `bottom` is left out where it is the layer before."""
    fields = [Field("name", to_value_node(net.name))]
    layers_used = (*net.preprocess, *net.augment, *(node.layer for node in net.nodes))
    imported = filter(None, (import_of(type(layer)) for layer in layers_used))
    fields += [Field("import", to_value_node(name)) for name in dict.fromkeys((*net.imports, *imported))]
    for declared in net.inputs:
        inside = [Field("name", to_value_node(declared.name)), Field("shape", to_value_node(list(declared.shape)))]
        if declared.dtype != "float32":
            inside.append(Field("dtype", to_value_node(declared.dtype)))
        fields.append(Field("input", Body(tuple(inside))))
    for name, layers in (("preprocess", net.preprocess), ("augment", net.augment)):
        if layers:
            fields.append(Field(name, Body(tuple(_block_field(layer, layer.to_fields()) for layer in layers))))
    if net.class_names:
        fields.append(Field("class_names", to_value_node(list(net.class_names))))
    before = net.inputs[0].name if len(net.inputs) == 1 else None
    for one in net.nodes:
        fields.append(_layer_field(one, before))
        before = one.tops[0]
    if net.outputs != (before,):
        fields.append(Field("output", to_value_node(net.outputs[0] if len(net.outputs) == 1 else list(net.outputs))))
    return fields


def _layer_field(one: LayerNode, before: str | None) -> Field:
    inside = [Field("name", to_value_node(one.name))]
    if one.bottoms != (before,):
        inside.append(Field("bottom", to_value_node(one.bottoms[0] if len(one.bottoms) == 1 else list(one.bottoms))))
    if one.tops != top_names(one.name, len(one.tops)):
        inside.append(Field("top", to_value_node(one.tops[0] if len(one.tops) == 1 else list(one.tops))))
    return _block_field(one.layer, [*inside, *(f for f in one.layer.to_fields() if f.name != "name")])


def _block_field(layer: Layer, fields: list[Field]) -> Field:
    return Field(layer.name_in_text(), Body(tuple(fields)))
