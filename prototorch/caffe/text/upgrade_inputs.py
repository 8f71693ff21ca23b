"""Upgrade of a net's ``input`` fields to an Input layer, and of BatchNorm layers with learning rates."""

from __future__ import annotations

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message

__all__ = ["upgrade_batch_norms", "upgrade_inputs"]

_AXES = 4  # dimensions of an input in input_dim


def upgrade_inputs(net: Message) -> Message:
    """A net whose ``input``, ``input_shape`` and ``input_dim`` are an Input layer before all others.

    Inputs without shapes, which old weight files have, are left out, and so are shapes beyond the inputs. Raises
    TextError where there are fewer shapes than inputs (Caffe reads foreign memory there).
    """
    inputs = net["input"]
    if inputs:
        shapes = _input_shapes(net)
        if shapes:
            layer = Message("LayerParameter", span=net.field_span("input"), name="input", type="Input")
            for index, name in enumerate(inputs):
                layer.set("top", name, net.field_span("input", index))
            layer["input_param"] = Message("InputParameter", shape=shapes)
            net["layer"] = [layer, *net["layer"]]
    for field in ("input", "input_shape", "input_dim"):
        net.clear(field)
    return net


def _input_shapes(net: Message) -> list[Message]:
    """The shapes of a net's inputs; none where the net gives none."""
    inputs, shapes, dims = net["input"], net["input_shape"], net["input_dim"]
    count, field, each = len(inputs), "input_shape" if shapes else "input_dim", 1 if shapes else _AXES
    num_fields = len(shapes) or len(dims)
    if 0 < num_fields < each * count:
        hint = "" if shapes else " Use input_shape for an input that has not 4 axes."
        fail_at(
            f"The net has {num_fields} {field} fields; its {count} inputs need {each * count}.{hint}",
            net.field_span(field),
        )
    if shapes:
        return [shape.copy() for shape in shapes[:count]]
    spans = [net.field_span("input_dim", i) for i in range(len(dims))]
    input_shapes = []
    for first in range(0, min(len(dims), _AXES * count), _AXES):
        shape = Message("BlobShape", span=spans[first])
        for index in range(first, first + _AXES):
            shape.set("dim", dims[index], spans[index])
        input_shapes.append(shape)
    return input_shapes


def upgrade_batch_norms(net: Message) -> Message:
    """A net whose BatchNorm layers with three ``param`` fields have lr_mult and decay_mult 0 in them."""
    for layer in net["layer"]:
        if layer["type"] == "BatchNorm" and len(layer["param"]) == 3:
            for spec in layer["param"]:
                spec["lr_mult"] = 0.0
                spec["decay_mult"] = 0.0
    return net
