"""Recurrent layers and attention."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.interop.layouts import NotExpressibleError
from prototorch.interop.torch.export_dense_conv_layers import without_bias
from prototorch.interop.torch.layer_table import TorchLayer, TorchLayerExport, in_torch, module_call
from prototorch.interop.torch.layouts import attention_projections


def _check_gates(layer: Any, activation: type, recurrent: type | None = None) -> None:
    if type(layer.activation) is not activation:
        raise NotExpressibleError(f"the activation {type(layer.activation).__name__} inside")
    if recurrent is not None and type(layer.recurrent_activation) is not recurrent:
        raise NotExpressibleError(f"the recurrent_activation {type(layer.recurrent_activation).__name__}")
    if layer.dropout or layer.recurrent_dropout:
        raise NotExpressibleError("dropout inside a recurrent layer")


def _kind(layer: Any) -> tuple[str, dict[str, Any]]:
    """The module of a recurrent layer, and the arguments that choose its form. Raises NotExpressibleError."""
    if isinstance(layer, layers.RNN):
        raise NotExpressibleError("cells inside")
    if isinstance(layer, layers.SimpleRNN):
        plain = type(layer.activation) is layers.ReLU and layer.activation == layers.ReLU()
        _check_gates(layer, layers.ReLU if plain else layers.Tanh)
        return "RNN", {"nonlinearity": "relu"} if plain else {}
    _check_gates(layer, layers.Tanh, layers.Sigmoid)
    if isinstance(layer, layers.GRU) and not layer.reset_after:
        raise NotExpressibleError("reset_after: false")
    return type(layer).__name__, {}


@in_torch(layers.LSTM, layers.GRU, layers.SimpleRNN)
def _recurrent(export: TorchLayerExport) -> TorchLayer:
    layer = export.layer
    kind, options = _kind(layer)
    call = module_call(kind, export.shape[2], layer.units, **options, **without_bias(layer.use_bias), batch_first=True)

    def compute(t: Any, m: Any, x: Any, *first: Any) -> Any:
        x = x.flip(1) if layer.go_backwards else x
        whole, last = _run(t, m, x, [s.unsqueeze(0).contiguous() for s in first])
        y = whole if layer.return_sequences else whole[:, -1]
        if not layer.return_state:
            return y
        states = t.unpack(last, 2) if layer.states == 2 else (last,)
        return (y, *(s.squeeze(0) for s in states))

    return TorchLayer(compute, {"": call})


def _run(t: Any, m: Any, x: Any, first: list[Any]) -> tuple[Any, Any]:
    """The module over a sequence: the outputs of all steps, and the last states."""
    states = [tuple(first) if len(first) > 1 else first[0]] if first else []
    whole, last = t.unpack(m("")(x, *states), 2)
    return whole, last


@in_torch(layers.Bidirectional)
def _bidirectional(export: TorchLayerExport) -> TorchLayer:
    layer = export.layer
    forward, backward = layer.directions()
    if type(forward) is not type(backward) or _kind(forward) != _kind(backward):
        raise NotExpressibleError("two layers of different kinds")
    if forward.go_backwards or (forward.units, forward.use_bias) != (backward.units, backward.use_bias):
        raise NotExpressibleError("two layers of different sizes, or the first of which goes backwards")
    if len(export.shapes) > 1:
        raise NotExpressibleError("first states")
    kind, options = _kind(forward)
    units = forward.units
    call = module_call(kind, export.shape[2], units, **options, **without_bias(forward.use_bias), batch_first=True,
                       bidirectional=True)  # fmt: skip

    def compute(t: Any, m: Any, x: Any) -> Any:
        whole, last = t.unpack(m("")(x), 2)
        states = list(t.unpack(last, 2)) if forward.states == 2 else [last]
        if forward.return_sequences:
            both = (whole,) if layer.merge_mode == "concat" else (whole[..., :units], whole[..., units:])
        elif layer.merge_mode == "concat":
            both = (t.torch.cat([states[0][0], states[0][1]], 1),)
        else:
            both = (states[0][0], states[0][1])
        merged = both if len(both) == 1 or layer.merge_mode is None else (_merge(layer.merge_mode, *both),)
        if not forward.return_state:
            return merged if len(merged) > 1 else merged[0]
        return (*merged, *(s[0] for s in states), *(s[1] for s in states))

    return TorchLayer(compute, {"": call})


def _merge(mode: str, a: Any, b: Any) -> Any:
    if mode == "mul":
        return a * b
    return (a + b) / 2 if mode == "ave" else a + b


@in_torch(layers.MultiHeadAttention)
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
    layouts = attention_projections(layer, shapes)
    calls = {}
    for layout in layouts:
        name, _, kind = layout.theirs[0].partition(".")
        if kind == "weight":
            ((size, length),) = layout.their_shapes(shapes)
            calls[name] = module_call("Linear", length, size, **without_bias(layer.use_bias))
    causal = {"is_causal": True} if layer.causal else {}

    def compute(t: Any, m: Any, query: Any, value: Any = None, key: Any = None) -> Any:
        value = query if value is None else value
        key = value if key is None else key
        q, k, v = (t.let(m(name)(x).unflatten(2, (layer.num_heads, -1)).transpose(1, 2), name[0])
                   for name, x in (("query", query), ("key", key), ("value", value)))  # fmt: skip
        dropout = {"dropout_p": t.in_training(layer.dropout, 0.0)} if layer.dropout else {}
        y = t.F.scaled_dot_product_attention(q, k, v, **dropout, **causal)
        return m("attention_output")(y.transpose(1, 2).flatten(2))

    return TorchLayer(compute, calls, tuple(layouts))
