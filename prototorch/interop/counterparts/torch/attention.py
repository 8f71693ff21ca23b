"""Attention."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.counterparts.torch.dense_conv import linear_call
from prototorch.interop.counterparts.torch.row import TorchLayer, TorchLayerExport, TorchRow, named_weights
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import (
    Chain,
    EachArray,
    ReshapeArray,
    SplitArray,
    Transform,
    TransposeArray,
)


def _attention(export: TorchLayerExport) -> TorchLayer:
    layer, shapes = export.layer, export.weight_shapes
    if layer.rotary is not None:
        raise NotExpressibleError("a rotary embedding of queries and keys")
    if layer.return_attention_scores:
        raise NotExpressibleError("return_attention_scores")
    if len(export.shapes) > 3:
        raise NotExpressibleError("a mask as an input")
    if layer.causal and len(export.shapes) > 1 and export.shapes[0][1] != export.shapes[1][1]:
        raise NotExpressibleError("causal attention to a sequence of another length")
    layouts = _projections(layer, shapes)
    calls = {}
    for layout in layouts:
        name, _, kind = layout.theirs[0].partition(".")
        if kind == "weight":
            ((size, length),) = layout.their_shapes(shapes)
            calls[name] = linear_call(length, size, layer.use_bias)
    causal = {"is_causal": True} if layer.causal else {}

    def compute(t: Any, m: Any, query: Any, value: Any = None, key: Any = None) -> Any:
        value = query if value is None else value
        key = value if key is None else key
        q, k, v = (
            t.let(m(name)(x).unflatten(2, (layer.num_heads, -1)).transpose(1, 2), name[0])
            for name, x in (("query", query), ("key", key), ("value", value))
        )
        dropout = {"dropout_p": t.in_training(layer.dropout, 0.0)} if layer.dropout else {}
        y = t.F.scaled_dot_product_attention(q, k, v, **dropout, **causal)
        return m("attention_output")(y.transpose(1, 2).flatten(2))

    return TorchLayer(compute, calls, tuple(layouts))


# ---------------------------------------------------------------- weights


def _projections(layer: layers.Layer, shapes: Shapes) -> list[WeightLayout]:
    """Four ``nn.Linear`` with the names of our projections."""
    layouts: list[WeightLayout] = []
    for name in ("query", "key", "value", "attention_output"):
        shape = shapes[f"{name}/kernel"]
        layouts.append(WeightLayout((f"{name}/kernel",), (f"{name}.weight",), _flat_linear(shape, name)))
        if f"{name}/bias" in shapes:
            bias = shapes[f"{name}/bias"]
            transform = ReshapeArray(bias, (prod(bias),)) if len(bias) > 1 else Transform()
            layouts.append(WeightLayout((f"{name}/bias",), (f"{name}.bias",), transform))
    return layouts


def _flat_linear(shape: tuple[int, ...], name: str) -> Transform:
    """The weight [out, in] of a linear map from or to all heads as our kernel [in, heads, dim] or [heads, dim, out]."""
    inputs = prod(shape[:-1]) if name == "attention_output" else shape[0]
    return Chain((TransposeArray((1, 0)), ReshapeArray(shape, (inputs, prod(shape) // inputs))))


def _attention_weights(layer: layers.MultiHeadAttention, shapes: Shapes) -> list[WeightLayout]:
    """``nn.MultiheadAttention`` where it is one: heads that divide the query's length, and as long an output."""
    query, key, value, output = (shapes[f"{n}/kernel"] for n in ("query", "key", "value", "attention_output"))
    length = query[0]
    if not length == prod(query[1:]) == prod(value[1:]) == output[-1]:
        return _projections(layer, shapes)
    ours = tuple(f"{n}/kernel" for n in ("query", "key", "value"))
    each = tuple(_flat_linear(shapes[n], n) for n in ours)
    if key[0] == value[0] == length:
        layouts = [WeightLayout(ours, ("in_proj_weight",), Chain((SplitArray((length,) * 3), EachArray(each))))]
    else:
        layouts = [
            WeightLayout((name,), (f"{short}_proj_weight",), transform)
            for name, short, transform in zip(ours, "qkv", each, strict=True)
        ]
    if layer.use_bias:
        biases = tuple(f"{n}/bias" for n in ("query", "key", "value"))
        heads = tuple(ReshapeArray(shapes[n], (length,)) for n in biases)
        layouts.append(WeightLayout(biases, ("in_proj_bias",), Chain((SplitArray((length,) * 3), EachArray(heads)))))
    layouts.append(
        WeightLayout(("attention_output/kernel",), ("out_proj.weight",), _flat_linear(output, "attention_output"))
    )
    if layer.use_bias:
        layouts.append(WeightLayout(("attention_output/bias",), ("out_proj.bias",)))
    return layouts


ROWS = CounterpartRows(
    system="torch",
    rows=(
        TorchRow(
            layers=(layers.MultiHeadAttention,),
            module=_attention,
            layouts=_attention_weights,
            weight_variants=(_projections,),
        ),
        TorchRow(layers=(layers.GroupQueryAttention,), layouts=_projections),
        # parameters of the module that stands for the layer
        TorchRow(
            layers=(layers.Attention, layers.AdditiveAttention),
            weights=named_weights(scale="scale", concat_score_weight="concat_score_weight"),
        ),
    ),
)
