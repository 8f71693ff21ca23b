"""Dense layers, tables of vectors, parameters, convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.row import CounterpartRows, WeightPair
from prototorch.interop.counterparts.torch.row import (
    ModuleCall,
    TorchLayer,
    TorchLayerExport,
    TorchRow,
    module_call,
    named_weights,
    single_module,
)
from prototorch.layers.conv_transpose import transposed_conv_shape
from prototorch.layers.windows import Pads, resolve_padding
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import TransposeArray


def _dense(export: TorchLayerExport) -> TorchLayer:
    return single_module(linear_call(export.shape[-1], export.layer.units, export.layer.use_bias))


def linear_call(inputs: int, outputs: int, use_bias: bool) -> ModuleCall:
    """A linear map."""
    return module_call("Linear", {"in_features": inputs, "out_features": outputs}, **without_bias(use_bias))


def without_bias(use_bias: bool) -> dict[str, Any]:
    """The argument that leaves out the bias; nothing where there is one."""
    return {} if use_bias else {"bias": False}


def _embedding(export: TorchLayerExport) -> TorchLayer:
    call = _table_call(export.layer.input_dim, export.layer.output_dim)
    return single_module(call, before=lambda t, x: x.long())


def _table_call(rows: int, length: int) -> ModuleCall:
    return module_call("Embedding", {"num_embeddings": rows, "embedding_dim": length})


def _positions(export: TorchLayerExport) -> TorchLayer:
    (rows, length), steps = export.weight_shapes["position_embeddings"], export.shape[1]
    call = _table_call(rows, length)
    if steps == rows:
        return TorchLayer(lambda t, m, x: x + m("").weight, {"": call})
    return TorchLayer(lambda t, m, x: x + m("").weight[:steps], {"": call})


def _class_token(export: TorchLayerExport) -> TorchLayer:
    (_, length) = export.weight_shapes["token"]
    return TorchLayer(
        lambda t, m, x: t.torch.cat([m("").weight.expand(x.shape[0], 1, length), x], dim=1),
        {"": _table_call(1, length)},
    )


# ---------------------------------------------------------------- convolution


def plain_sizes(sizes: Sequence[int]) -> Any:
    """One integer where all dimensions have the same."""
    return sizes[0] if len(set(sizes)) == 1 else tuple(sizes)


def window_options(**sizes: Sequence[int] | int) -> dict[str, Any]:
    """Arguments of a module over windows; those that are its defaults are left out."""
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}
    sizes_as_ints = {n: v if isinstance(v, int) else plain_sizes(v) for n, v in sizes.items()}
    return {n: v for n, v in sizes_as_ints.items() if v != defaults[n]}


def flat_pads(pads: Pads) -> list[int]:
    """((before, after), ...) as F.pad takes it: the last dimension first."""
    return [n for pair in reversed(pads) for n in pair]


def split_padding(pads: Pads, value: float = 0.0) -> tuple[tuple[int, ...], Any]:
    """Padding as a module's own argument; where the two sides differ, as a function of the input before it."""
    if all(a == b for a, b in pads):
        return tuple(a for a, _ in pads), None
    flat, options = flat_pads(pads), {} if value == 0 else {"value": value}
    return (0,) * len(pads), lambda t, x: t.F.pad(x, flat, **options)


def _convolution(export: TorchLayerExport, filters: int, groups: int, bias: bool) -> tuple[ModuleCall, Any]:
    """A convolution, and the padding before it where it needs one."""
    layer = export.layer
    pads = resolve_padding(layer.padding, export.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate)
    inside, before = split_padding(pads)
    options = window_options(stride=layer.strides, padding=inside, dilation=layer.dilation_rate, groups=groups)
    call = _conv_call(f"Conv{export.rank}d", export.shape[1], filters, plain_sizes(layer.kernel_size), options, bias)
    return call, before


def _conv_call(kind: str, inputs: int, outputs: int, kernel: Any, options: dict[str, Any], bias: bool) -> ModuleCall:
    arguments = {"in_channels": inputs, "out_channels": outputs, "kernel_size": kernel}
    return module_call(kind, arguments, **options, **without_bias(bias))


def _conv(export: TorchLayerExport) -> TorchLayer:
    return single_module(*_convolution(export, export.layer.filters, export.layer.groups, export.layer.use_bias))


def _depthwise(export: TorchLayerExport) -> TorchLayer:
    channels = export.shape[1]
    return single_module(
        *_convolution(export, channels * export.layer.depth_multiplier, channels, export.layer.use_bias)
    )


def _separable(export: TorchLayerExport) -> TorchLayer:
    wide = export.shape[1] * export.layer.depth_multiplier
    first, before = _convolution(export, wide, export.shape[1], False)
    second = _conv_call(f"Conv{export.rank}d", wide, export.layer.filters, 1, {}, export.layer.use_bias)

    def compute(t: Any, m: Any, x: Any) -> Any:
        return m("pointwise")(m("depthwise")(x if before is None else before(t, x)))

    return TorchLayer(compute, {"depthwise": first, "pointwise": second})


def _conv_transpose(export: TorchLayerExport) -> TorchLayer:
    layer, rank = export.layer, export.rank
    paddings = (layer.padding,) * rank if isinstance(layer.padding, str) else layer.padding
    extras = layer.output_padding or (None,) * rank
    axes = zip(export.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate, paddings, extras, strict=True)
    sizes, pads = zip(*(transposed_conv_shape(*one) for one in axes), strict=True)
    windows = zip(export.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate, strict=True)
    full_sizes = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in windows]
    # the end of what PyTorch's module gives, cut off evenly at both ends and with what it adds at the end
    inside = (
        tuple(a for a, _ in pads)
        if all(a + n >= size - a for (a, _), size, n in zip(pads, full_sizes, sizes, strict=True))
        else (0,) * rank
    )
    more = [
        max(size - (n - 2 * p), 0) if any(inside) else max(a + size - n, 0)
        for (a, _), size, n, p in zip(pads, sizes, full_sizes, inside, strict=True)
    ]
    limits = [max(s, d) for s, d in zip(layer.strides, layer.dilation_rate, strict=True)]
    if any(extra >= limit for extra, limit in zip(more, limits, strict=True)):
        raise NotExpressibleError("an output that reaches further beyond its windows than a stride")
    options = window_options(
        stride=layer.strides, padding=inside, output_padding=more, groups=layer.groups, dilation=layer.dilation_rate
    )
    kernel = plain_sizes(layer.kernel_size)
    call = _conv_call(f"ConvTranspose{rank}d", export.shape[1], layer.filters, kernel, options, layer.use_bias)
    got = [n - 2 * p + extra for n, p, extra in zip(full_sizes, inside, more, strict=True)]
    starts = [a - p for (a, _), p in zip(pads, inside, strict=True)]
    if got == list(sizes) and not any(starts):
        return single_module(call)
    inner = (..., *(slice(a, a + size) for a, size in zip(starts, sizes, strict=True)))
    return single_module(call, after=lambda t, y: y[inner])


def _sequential_separable(layer: layers.Layer, shapes: Shapes) -> list[WeightLayout]:
    """An ``nn.Sequential`` of the two convolutions."""
    names = {"depthwise_kernel": "0.weight", "pointwise_kernel": "1.weight", "bias": "1.bias"}
    return [WeightLayout((ours,), (theirs,)) for ours, theirs in names.items() if ours in shapes]


_KERNEL = named_weights(kernel="weight", bias="bias")

ROWS = CounterpartRows(
    system="torch",
    rows=(
        TorchRow(
            layers=(layers.Dense,),
            module=_dense,
            weights=(
                WeightPair("kernel", "weight", lambda layer, shape: TransposeArray((1, 0))),
                WeightPair("bias", "bias"),
            ),
        ),
        TorchRow(layers=(layers.Embedding,), module=_embedding, weights=named_weights(embeddings="weight")),
        TorchRow(
            layers=(layers.PositionEmbedding,), module=_positions, weights=named_weights(position_embeddings="weight")
        ),
        TorchRow(layers=(layers.ClassToken,), module=_class_token, weights=named_weights(token="weight")),
        # an nn.Parameter of the module above, by the layer's own name
        TorchRow(layers=(layers.Parameter, layers.Variable), weights=named_weights(value="")),
        TorchRow(layers=(layers.Conv1D, layers.Conv2D, layers.Conv3D), module=_conv, weights=_KERNEL),
        TorchRow(
            layers=(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
            module=_conv_transpose,
            weights=_KERNEL,
        ),
        TorchRow(layers=(layers.DepthwiseConv1D, layers.DepthwiseConv2D), module=_depthwise, weights=_KERNEL),
        TorchRow(
            layers=(layers.SeparableConv1D, layers.SeparableConv2D),
            module=_separable,
            weights=named_weights(
                depthwise_kernel="depthwise.weight", pointwise_kernel="pointwise.weight", bias="pointwise.bias"
            ),
            weight_variants=(_sequential_separable,),
        ),
    ),
)
