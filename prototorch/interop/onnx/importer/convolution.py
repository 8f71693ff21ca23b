"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import NetValue, Operand
from prototorch.interop.onnx.importer.registry import NoLayerError, imports
from prototorch.interop.onnx.op_pairs import pairs_by_op
from prototorch.ops.windows import dilated_size, same_padding

__all__: list[str] = []

_DEPTHWISE: dict[int, Any] = {1: layers.DepthwiseConv1D, 2: layers.DepthwiseConv2D}

Pads = list[list[int]]


def _image(node: OnnxNode, op: str = "") -> tuple[NetValue, int, Any]:
    """The input, its number of spatial dimensions, and the layer for it of the row of the node's op, or of another."""
    x, kinds = node.batch_first(0), pairs_by_op()[op or node.op].layers
    rank = len(x.dims) - 1
    if not 1 <= rank <= len(kinds):
        ranks = ", ".join(str(n + 1) for n in range(len(kinds)))
        raise NoLayerError(f"it has {rank} dimensions besides the channels; there are layers for {ranks}")
    return x, rank, kinds[rank - 1]


def _sizes(node: OnnxNode, name: str, rank: int, default: Sequence[int] | None = None) -> list[int]:
    values = list(node.get(name, default if default is not None else [1] * rank))
    if len(values) != rank or min(values) < 1:
        raise NoLayerError(f"{name} {values[:8]} does not fit {rank} dimensions")
    return values


def _padding(
    node: OnnxNode, size: Sequence[int], kernel: list[int], strides: list[int], dilations: list[int]
) -> str | Pads:
    """The field ``padding``."""
    auto = node.get("auto_pad", "NOTSET")
    rank = len(kernel)
    if auto == "VALID":
        return "valid"
    if auto == "SAME_UPPER":
        return "same"
    if auto == "SAME_LOWER":
        pads = []
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max((-(-n // s) - 1) * s + dilated_size(k, d) - n, 0)
            pads.append([total - total // 2, total // 2])
        return pads
    if auto != "NOTSET":
        raise NoLayerError(f"auto_pad {auto!r} is not known")
    flat = list(node.get("pads", [0] * (2 * rank)))
    if len(flat) != 2 * rank:
        raise NoLayerError(f"pads {flat[:12]} do not fit {rank} dimensions")
    return [[a, b] for a, b in zip(flat[:rank], flat[rank:], strict=True)] if any(flat) else "valid"


def _padded(b: NetBuilder, x: NetValue, padding: str | Pads) -> tuple[NetValue, str | Pads]:
    """Negative pads cut the input off."""
    if isinstance(padding, str) or all(n >= 0 for pair in padding for n in pair):
        return x, padding
    cuts = [[max(-n, 0) for n in pair] for pair in padding]
    kind = getattr(layers, f"Cropping{len(padding)}D")
    return b.add(b.make(kind, cropping=cuts), x), [[max(n, 0) for n in pair] for pair in padding]


@imports("Conv")
def _conv(b: NetBuilder, node: OnnxNode) -> Operand:
    x, rank, kind = _image(node)
    kernel, bias = node.weight(1, "W"), node.constant(2, "B")
    if kernel.ndim != rank + 2 or list(node.get("kernel_shape", kernel.shape[2:])) != list(kernel.shape[2:]):
        stated = f" and kernel_shape {node.get('kernel_shape')}" if node.get("kernel_shape") else ""
        raise NoLayerError(f"weights of shape {list(kernel.shape)}{stated} for {rank} dimensions")
    size = list(kernel.shape[2:])
    strides, dilations, groups = _sizes(node, "strides", rank), _sizes(node, "dilations", rank), node.get("group", 1)
    x, padding = _padded(b, x, _padding(node, x.dims[1:], size, strides, dilations))
    filters, channels = kernel.shape[0], x.dims[0]
    fields = {
        "kernel_size": size,
        "strides": strides,
        "padding": padding,
        "dilation_rate": dilations,
        "use_bias": bias is not None,
    }
    if groups == channels > 1 and kernel.shape[1] == 1 and filters % channels == 0 and rank in _DEPTHWISE:
        layer = b.make(_DEPTHWISE[rank], depth_multiplier=filters // channels, **fields)
    else:
        layer = b.make(kind, filters=filters, groups=groups, **fields)
    return b.add(layer, x, kernel=kernel, bias=bias)


@imports("ConvTranspose")
def _conv_transpose(b: NetBuilder, node: OnnxNode) -> Operand:
    x, rank, kind = _image(node)
    kernel, bias = node.weight(1, "W"), node.constant(2, "B")
    if kernel.ndim != rank + 2 or list(node.get("kernel_shape", kernel.shape[2:])) != list(kernel.shape[2:]):
        stated = f" and kernel_shape {node.get('kernel_shape')}" if node.get("kernel_shape") else ""
        raise NoLayerError(f"weights of shape {list(kernel.shape)}{stated} for {rank} dimensions")
    size, groups = list(kernel.shape[2:]), node.get("group", 1)
    strides, dilations = _sizes(node, "strides", rank), _sizes(node, "dilations", rank)
    extra = list(node.get("output_padding", [0] * rank))
    full = [(n - 1) * s + dilated_size(k, d) for n, s, k, d in zip(x.dims[1:], strides, size, dilations, strict=True)]
    auto, shape = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if shape is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        shape = [n * s for n, s in zip(x.dims[1:], strides, strict=True)]
    if shape is not None:
        pads = []
        for n, e, output_size in zip(full, extra, list(shape)[-rank:], strict=True):
            total = n + e - output_size
            small, large = (total // 2, total - total // 2) if total >= 0 else (0, total)
            pads.append([small, large] if auto == "SAME_UPPER" else [large, small] if total >= 0 else [0, total])
    else:
        padding = _padding(node, x.dims[1:], size, strides, dilations)
        pads = [[0, 0]] * rank if isinstance(padding, str) else padding
    if any(n < 0 for pair in pads for n in pair):  # an output beyond the windows: zeros
        extra = [e - min(p[1], 0) for e, p in zip(extra, pads, strict=True)]
        pads = [[p[0], max(p[1], 0)] for p in pads]
    too_long = [e >= s for e, s in zip(extra, strides, strict=True)]
    fields = {
        "filters": kernel.shape[1] * groups,
        "kernel_size": size,
        "strides": strides,
        "dilation_rate": dilations,
        "groups": groups,
        "use_bias": bias is not None,
        "padding": pads,
    }
    if any(too_long) or min(n for pair in pads for n in pair) < 0:
        raise NoLayerError(
            f"an output of shape {shape or 'beyond its windows'} is larger than a transposed convolution "
            "of this input gives"
        )
    layer = b.make(kind, output_padding=extra if any(extra) else None, **fields)
    return b.add(layer, x, kernel=kernel, bias=bias)


# ---------------------------------------------------------------- pooling


def _pool_fields(b: NetBuilder, node: OnnxNode, x: NetValue, rank: int) -> tuple[NetValue, dict[str, Any], list[int]]:
    kernel = _sizes(node, "kernel_shape", rank)
    strides, dilations = _sizes(node, "strides", rank), _sizes(node, "dilations", rank)
    padding = _padding(node, x.dims[1:], kernel, strides, dilations)
    if not isinstance(padding, str) and min(n for pair in padding for n in pair) < 0:
        raise NoLayerError(f"pads {padding} of a pooling are negative")
    fields = {"pool_size": kernel, "strides": strides, "padding": padding, "ceil_mode": node.flag("ceil_mode", 0)}
    return x, fields, dilations


def _check_ceil(fields: dict[str, Any], size: Sequence[int]) -> dict[str, Any]:
    """Without ceil_mode where it changes nothing."""
    if fields["ceil_mode"] and not isinstance(fields["padding"], str):
        rest = [
            (n + sum(p) - k) % s
            for n, p, k, s in zip(size, fields["padding"], fields["pool_size"], fields["strides"], strict=True)
        ]
        fields["ceil_mode"] = any(rest)
    elif fields["ceil_mode"] and fields["padding"] == "valid":
        rest = [(n - k) % s for n, k, s in zip(size, fields["pool_size"], fields["strides"], strict=True)]
        fields["ceil_mode"] = any(rest)
    elif fields["padding"] == "same":
        fields["ceil_mode"] = False
    return fields


@imports("MaxPool")
def _max_pool(b: NetBuilder, node: OnnxNode) -> Operand:
    if len([n for n in node.outputs if n]) > 1:
        raise NoLayerError("the indices of the largest elements have no layer")
    x, rank, kind = _image(node)
    x, fields, dilations = _pool_fields(b, node, x, rank)
    if max(dilations) > 1:
        raise NoLayerError("pooling with dilations has no layer")
    return b.add(b.make(kind, **_check_ceil(fields, x.dims[1:])), x)


@imports("AveragePool")
def _average_pool(b: NetBuilder, node: OnnxNode) -> Operand:
    x, rank, kind = _image(node)
    included = node.flag("count_include_pad", 0)
    x, fields, dilations = _pool_fields(b, node, x, rank)
    if max(dilations) > 1:
        raise NoLayerError("pooling with dilations has no layer")
    if included and fields["padding"] == "same":
        raise NoLayerError("auto_pad whose zeros count in the mean has no layer")
    fields = _check_ceil(fields, x.dims[1:])
    if isinstance(fields["padding"], str):
        included = False
    return b.add(b.make(kind, count_include_pad=included, **fields), x)


@imports("LpPool")
def _lp_pool(b: NetBuilder, node: OnnxNode) -> Operand:
    """(sum of |x|^p)^(1/p): by the mean of the powers, zeros of the padding included."""
    x, rank, kind = _image(node, "AveragePool")
    p = float(node.get("p", 2))
    x, fields, dilations = _pool_fields(b, node, x, rank)
    if max(dilations) > 1:
        raise NoLayerError("pooling with dilations has no layer")
    if fields["padding"] == "same":  # of which the layer's mean leaves the zeros out
        fields["padding"] = [
            list(same_padding(n, k, s, 1))
            for n, k, s in zip(x.dims[1:], fields["pool_size"], fields["strides"], strict=True)
        ]
    fields = _check_ceil(fields, x.dims[1:])
    if fields["ceil_mode"]:
        raise NoLayerError("a window that reaches over the end has no layer for sums of powers")
    powers = b.add(b.make(layers.Power, exponent=p), b.add(layers.Abs(), x))
    included = not isinstance(fields["padding"], str)
    means = b.add(b.make(kind, count_include_pad=included, **fields), powers)
    sums = b.add(b.make(layers.Rescaling, scale=float(prod(fields["pool_size"]))), means)
    return b.add(b.make(layers.Power, exponent=1 / p), sums)


@imports("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(b: NetBuilder, node: OnnxNode) -> Operand:
    x, _, kind = _image(node)
    return b.add(kind(keepdims=True), x)


@imports("GlobalLpPool")
def _global_lp_pool(b: NetBuilder, node: OnnxNode) -> Operand:
    x, rank, _ = _image(node, "AveragePool")
    p = float(node.get("p", 2))
    powers = b.add(b.make(layers.Power, exponent=p), b.add(layers.Abs(), x))
    sums = b.add(b.make(layers.ReduceSum, axis=list(range(2, rank + 2)), keepdims=True), powers)
    return b.add(b.make(layers.Power, exponent=1 / p), sums)
