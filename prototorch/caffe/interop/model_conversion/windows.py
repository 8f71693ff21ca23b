"""Pooling and convolutions in the forms that a person writes: global pooling, depthwise convolutions, no fields that
change nothing."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.interop.model_conversion.draft import NetDraft
from prototorch.graph.net import LayerNode
from prototorch.layers import (
    AveragePooling2D,
    Conv2D,
    DepthwiseConv2D,
    Flatten,
    GlobalAveragePooling2D,
    GlobalMaxPooling2D,
    MaxPooling2D,
)
from prototorch.layers.windows import resolve_padding

__all__ = ["simplify_windows"]

_POOLINGS = {MaxPooling2D: GlobalMaxPooling2D, AveragePooling2D: GlobalAveragePooling2D}


def simplify_windows(draft: NetDraft) -> None:
    """Rewrite pooling layers and grouped convolutions."""
    for node in list(draft.nodes):
        if type(node.layer) in _POOLINGS and len(node.tops) == 1:
            _simplify_pooling(draft, node)
        elif type(node.layer) is Conv2D:
            _simplify_convolution(draft, node)
    for node in list(draft.nodes):
        _join_flatten(draft, node)


def _simplify_pooling(draft: NetDraft, node: LayerNode) -> None:
    layer: Any = node.layer
    size = draft.shapes[node.bottoms[0]][2:]
    strides = layer.strides or layer.pool_size
    pads = resolve_padding(layer.padding, size, layer.pool_size, strides, (1, 1))
    has_padding = any(p for side in pads for p in side)
    if not has_padding and layer.pool_size == tuple(size):
        draft.set_layer(node, _POOLINGS[type(layer)](keepdims=True))
        return
    changes: dict[str, Any] = {}
    spans = [n + sum(p) - k for n, p, k in zip(size, pads, layer.pool_size, strict=True)]
    if layer.ceil_mode and all(span % stride == 0 for span, stride in zip(spans, strides, strict=True)):
        changes["ceil_mode"] = False
    if layer.strides == layer.pool_size:
        changes["strides"] = None
    draft.set_layer(node, layer.replace(**changes))


def _join_flatten(draft: NetDraft, node: LayerNode) -> None:
    """Global pooling that keeps its dimensions, and a Flatten behind it, are global pooling."""
    layer: Any = node.layer
    if not isinstance(layer, GlobalMaxPooling2D | GlobalAveragePooling2D) or not layer.keepdims:
        return
    reader = draft.only_reader(node)
    if reader is not None and isinstance(reader.layer, Flatten):
        draft.merge_into(draft.set_layer(node, layer.replace(keepdims=False)), reader)


def _simplify_convolution(draft: NetDraft, node: LayerNode) -> None:
    """One group for each channel is a depthwise convolution; its kernel has the same shape."""
    layer: Any = node.layer
    channels = draft.shapes[node.bottoms[0]][1]
    if layer.groups != channels or channels == 1:
        return
    names = ("kernel_size", "strides", "padding", "dilation_rate", "activation", "use_bias", "bias_initializer",
             "bias_regularizer", "bias_constraint", "weights", "trainable")  # fmt: skip
    fields = {name: value for name, value in layer.field_values().items() if name in names}
    for name in ("initializer", "regularizer", "constraint"):
        fields[f"depthwise_{name}"] = getattr(layer, f"kernel_{name}")
    draft.set_layer(node, DepthwiseConv2D(depth_multiplier=layer.filters // channels, **fields))
