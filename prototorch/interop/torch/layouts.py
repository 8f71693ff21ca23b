"""How PyTorch's modules store the weights of our layers, by the names of a ``state_dict``.

Source: torch.nn's documentation of each module. LSTM and RNN add two biases, which become one of ours (`SumArrays`);
GRU multiplies one of them by the reset gate, so both are kept (`StackArrays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch import layers
from prototorch.interop.layouts import LayoutTable, NotExpressibleError, Shapes, WeightLayout
from prototorch.interop.torch.names import canonical_parts
from prototorch.interop.transforms import (
    Chain,
    EachArray,
    GateOrder,
    IgnoredArray,
    NeutralArray,
    ReshapeArray,
    SplitArray,
    StackArrays,
    SumArrays,
    Transform,
    TransposeArray,
)
from prototorch.layers.rnn import cell_names, flat_cells

__all__ = ["LAYOUTS", "attention_projections"]

LAYOUTS = LayoutTable(system="torch", split_name=canonical_parts, ignored=("num_batches_tracked",))
_TRANSPOSED = TransposeArray((1, 0))
_Layouts = Sequence[WeightLayout]


def _pairs(shapes: Shapes, **names: str) -> list[WeightLayout]:
    """Weights that are stored as they are, in this order; those that the layer does not have are left out."""
    return [WeightLayout((ours,), (theirs,)) for ours, theirs in names.items() if ours in shapes]


@LAYOUTS.register(layers.Dense)
def _dense(layer: layers.Dense, shapes: Shapes) -> _Layouts:
    return [WeightLayout(("kernel",), ("weight",), _TRANSPOSED), *_pairs(shapes, bias="bias")]


@LAYOUTS.register(
    layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.Conv1DTranspose, layers.Conv2DTranspose,
    layers.Conv3DTranspose, layers.DepthwiseConv1D, layers.DepthwiseConv2D,
)  # fmt: skip
def _conv(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, kernel="weight", bias="bias")


@LAYOUTS.register(layers.SeparableConv1D, layers.SeparableConv2D)
def _separable(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """Two modules, ``depthwise`` and ``pointwise``."""
    return _pairs(shapes, depthwise_kernel="depthwise.weight", pointwise_kernel="pointwise.weight",
                  bias="pointwise.bias")  # fmt: skip


@LAYOUTS.register_variant(layers.SeparableConv1D, layers.SeparableConv2D)
def _separable_sequence(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """An ``nn.Sequential`` of the two convolutions."""
    return _pairs(shapes, depthwise_kernel="0.weight", pointwise_kernel="1.weight", bias="1.bias")


@LAYOUTS.register(layers.Embedding)
def _embedding(layer: layers.Embedding, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, embeddings="weight")


@LAYOUTS.register(layers.PositionEmbedding)
def _position_embedding(layer: layers.PositionEmbedding, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, position_embeddings="weight")


@LAYOUTS.register(layers.Parameter, layers.Variable)
def _parameter(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """An ``nn.Parameter`` of the module above, by the layer's own name."""
    return _pairs(shapes, value="")


@LAYOUTS.register(layers.PReLU)
def _prelu(layer: layers.PReLU, shapes: Shapes) -> _Layouts:
    """One alpha, or one a channel."""
    shape = shapes["alpha"]
    if prod(shape[1:]) != 1:
        raise NotExpressibleError(
            f"torch.nn.PReLU has one alpha a channel, not {list(shape)} (shared_axes leaves one a channel)"
        )
    transform = ReshapeArray(shape, shape[:1]) if len(shape) > 1 else Transform()
    return [WeightLayout(("alpha",), ("weight",), transform)]


# ---------------------------------------------------------------- normalization


def _scale_and_shift(shapes: Shapes) -> list[WeightLayout]:
    """``weight`` and ``bias``, which PyTorch's modules have both or not at all."""
    present = [n for n in ("gamma", "beta") if n in shapes]
    if not present:
        return []
    shape = shapes[present[0]]
    return [
        WeightLayout((ours,), (theirs,))
        if ours in shapes
        else WeightLayout((), (theirs,), NeutralArray(neutral, shape))
        for ours, theirs, neutral in (("gamma", "weight", 1.0), ("beta", "bias", 0.0))
    ]


@LAYOUTS.register(layers.BatchNormalization)
def _batch_norm(layer: layers.BatchNormalization, shapes: Shapes) -> _Layouts:
    if layer.weighted_sums:
        raise NotExpressibleError("torch.nn.BatchNorm has a moving mean and variance, not weighted_sums of them")
    return [*_scale_and_shift(shapes), *_pairs(shapes, moving_mean="running_mean", moving_variance="running_var"),
            WeightLayout((), ("num_batches_tracked",), IgnoredArray())]  # fmt: skip


@LAYOUTS.register(layers.Scale, layers.Bias)
def _scale_or_bias(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """Parameters of the module that stands for the layer."""
    return _pairs(shapes, scale="weight", bias="bias")


@LAYOUTS.register(layers.RMSNormalization)
def _rms_norm(layer: layers.RMSNormalization, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, scale="weight")


@LAYOUTS.register(layers.LayerNormalization, layers.GroupNormalization)
def _norm(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _scale_and_shift(shapes)


# ---------------------------------------------------------------- layers over sequences


#: by the kind of a recurrent layer, PyTorch's gates as ours come: i, f, g, o for i, f, c, o; r, z, n for z, r, h
_GATE_ORDERS: dict[type, tuple[int, ...]] = {
    **dict.fromkeys((layers.LSTM, layers.LSTMCell), (0, 1, 2, 3)),
    **dict.fromkeys((layers.GRU, layers.GRUCell), (1, 0, 2)),
    **dict.fromkeys((layers.SimpleRNN, layers.SimpleRNNCell), (0,)),
}  # fmt: skip


def _recurrent(layer: Any, shapes: Shapes, end: str) -> _Layouts:
    """PyTorch's names and orders, with ``end`` behind the names. A bias [2, n] is kept apart, another is the sum of
    theirs."""
    if not getattr(layer, "reset_after", True):
        raise NotExpressibleError("torch.nn.GRU resets after the matrix product; reset_after: false is another layer")
    order = _GATE_ORDERS[type(layer)]
    gates: tuple[Transform, ...] = () if order == tuple(range(len(order))) else (GateOrder(order, axis=0),)
    matrix = Chain((*gates, _TRANSPOSED))
    layouts = [
        WeightLayout(("kernel",), (f"weight_ih{end}",), matrix),
        WeightLayout(("recurrent_kernel",), (f"weight_hh{end}",), matrix),
    ]
    if "bias" in shapes:
        join = StackArrays() if len(shapes["bias"]) == 2 else SumArrays()
        layouts.append(WeightLayout(("bias",), (f"bias_ih{end}", f"bias_hh{end}"), Chain((*gates, join))))
    return layouts


@LAYOUTS.register(layers.LSTM, layers.GRU, layers.SimpleRNN)
def _recurrent_layer(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _recurrent(layer, shapes, "_l0")


@LAYOUTS.register(layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell)
def _recurrent_cell(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _recurrent(layer, shapes, "")


@LAYOUTS.register(layers.StackedRNNCells)
def _stacked_cells(layer: layers.StackedRNNCells, shapes: Shapes) -> _Layouts:
    """Modules ``cell_0``, ``cell_1``, ..."""
    result: list[WeightLayout] = []
    for name, cell in zip(cell_names(layer.cells, True), flat_cells(layer.cells), strict=True):
        result += [layout.under(f"{name}/", f"{name}.") for layout in LAYOUTS.layouts(cell, _below(shapes, name))]
    return result


@LAYOUTS.register(layers.RNN)
def _rnn(layer: layers.RNN, shapes: Shapes) -> _Layouts:
    """One module with as many layers as there are cells, all of one kind and size."""
    cells = list(flat_cells(layer.cell))
    if type(cells[0]) not in _GATE_ORDERS or any((type(c), c.units) != (type(cells[0]), cells[0].units) for c in cells):
        raise NotExpressibleError("torch.nn's recurrent modules have layers of one kind and size")
    result: list[WeightLayout] = []
    for k, (name, cell) in enumerate(zip(cell_names(layer.cell, len(cells) > 1), cells, strict=True)):
        result += [layout.under(f"{name}/") for layout in _recurrent(cell, _below(shapes, name), f"_l{k}")]
    return result


@LAYOUTS.register(layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D)
def _conv_lstm(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """Parameters of the module that stands for the layer."""
    return _pairs(shapes, kernel="weight_ih", recurrent_kernel="weight_hh", bias="bias")


@LAYOUTS.register(layers.Attention, layers.AdditiveAttention)
def _score_attention(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """Parameters of the module that stands for the layer."""
    return _pairs(shapes, scale="scale", concat_score_weight="concat_score_weight")


@LAYOUTS.register(layers.Bidirectional)
def _bidirectional(layer: layers.Bidirectional, shapes: Shapes) -> _Layouts:
    """One module with ``bidirectional=True``."""
    result = []
    for name, inner, end in zip(("forward_layer", "backward_layer"), layer.directions(), ("_l0", "_l0_reverse"),
                                strict=True):  # fmt: skip
        below = _below(shapes, name)
        if any(n.partition("/")[0].endswith("activation") for n in below) or type(inner) not in _GATE_ORDERS:
            raise NotExpressibleError(f"torch.nn has no {type(inner).__name__} with an activation that has weights")
        result += [layout.under(f"{name}/") for layout in _recurrent(inner, below, end)]
    return result


@LAYOUTS.register(layers.TimeDistributed)
def _time_distributed(layer: layers.TimeDistributed, shapes: Shapes) -> _Layouts:
    """The module of the layer inside."""
    below = {n.removeprefix("layer/"): s for n, s in shapes.items()}
    return [layout.under("layer/") for layout in LAYOUTS.layouts(layer.layer, below)]


def _below(shapes: Shapes, name: str) -> dict[str, tuple[int, ...]]:
    return {n.removeprefix(f"{name}/"): s for n, s in shapes.items() if n.startswith(f"{name}/")}


@LAYOUTS.register(layers.GroupQueryAttention)
def attention_projections(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """Four ``nn.Linear`` with the names of our projections."""
    layouts = []
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
    return Chain((_TRANSPOSED, ReshapeArray(shape, (inputs, prod(shape) // inputs))))


@LAYOUTS.register(layers.MultiHeadAttention)
def _attention(layer: layers.MultiHeadAttention, shapes: Shapes) -> _Layouts:
    """``nn.MultiheadAttention`` where it is one: heads that divide the query's length, and as long an output."""
    query, key, value, output = (shapes[f"{n}/kernel"] for n in ("query", "key", "value", "attention_output"))
    length = query[0]
    if not length == prod(query[1:]) == prod(value[1:]) == output[-1]:
        return attention_projections(layer, shapes)
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


LAYOUTS.register_variant(layers.MultiHeadAttention)(attention_projections)
