"""Convolutions, dense layers and embeddings as Convolution, Deconvolution, InnerProduct and Embed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.caffe.interop.export.fillers import filler
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.text.message import Message
from prototorch.layers.conv_transpose import transposed_conv_shape
from prototorch.layers.windows import resolve_padding

__all__ = ["symmetric_pads", "window_fields"]


def symmetric_pads(site: CaffeLayerExport, pads: Sequence[Sequence[int]]) -> list[int]:
    """The padding of each side; Caffe pads both ends of a dimension alike."""
    if any(before != after for before, after in pads):
        site.fail(
            f"its padding {[list(p) for p in pads]} differs at the two ends of a dimension, which Caffe cannot express"
        )
    return [before for before, _ in pads]


def window_fields(values: Sequence[int], default: int | None = None) -> list[int]:
    """Sizes of all dimensions as a repeated field: one where they are equal, none where they are the default."""
    if len(set(values)) == 1:
        return [] if values[0] == default else [values[0]]
    return list(values)


def _blobs(site: CaffeLayerExport, *names: str) -> list[np.ndarray]:
    return [site.weights[name] for name in names if name in site.weights]


def _conv_param(
    site: CaffeLayerExport, layer: Any, filters: int, groups: int, pads: Sequence[int], **more: Any
) -> Message:
    return make_message(
        "ConvolutionParameter",
        num_output=filters,
        bias_term=None if "bias" in site.weights else False,
        kernel_size=window_fields(layer.kernel_size),
        pad=window_fields(pads, 0),
        stride=window_fields(layer.strides, 1),
        dilation=window_fields(layer.dilation_rate, 1),
        group=groups if groups != 1 else None,
        **more,
    )


def _axis(layer: Any) -> int | None:
    """The axis of the channels, None where it is Caffe's default."""
    return layer.batch_axes if layer.batch_axes != 1 else None


@exports(layers.Conv1D, layers.Conv2D, layers.Conv3D)
def _conv(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    size = site.input_shapes[0][layer.batch_axes + 1 :]
    padding = resolve_padding(layer.padding, size, layer.kernel_size, layer.strides, layer.dilation_rate)
    param = _conv_param(
        site,
        layer,
        layer.filters,
        layer.groups,
        symmetric_pads(site, padding),
        axis=_axis(layer),
        weight_filler=filler(layer.kernel_initializer),
        bias_filler=filler(layer.bias_initializer),
    )
    site.add("Convolution", blobs=_blobs(site, "kernel", "bias"), convolution_param=param)
    site.add_activation(layer.activation)


@exports(layers.DepthwiseConv1D, layers.DepthwiseConv2D)
def _depthwise(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    channels, size = site.input_shapes[0][1], site.input_shapes[0][2:]
    padding = resolve_padding(layer.padding, size, layer.kernel_size, layer.strides, layer.dilation_rate)
    param = _conv_param(
        site,
        layer,
        channels * layer.depth_multiplier,
        channels,
        symmetric_pads(site, padding),
        weight_filler=filler(layer.depthwise_initializer),
        bias_filler=filler(layer.bias_initializer),
    )
    site.add("Convolution", blobs=_blobs(site, "kernel", "bias"), convolution_param=param)
    site.add_activation(layer.activation)


@exports(layers.SeparableConv1D, layers.SeparableConv2D)
def _separable(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    channels, size = site.input_shapes[0][1], site.input_shapes[0][2:]
    padding = resolve_padding(layer.padding, size, layer.kernel_size, layer.strides, layer.dilation_rate)
    param = _conv_param(
        site,
        layer,
        channels * layer.depth_multiplier,
        channels,
        symmetric_pads(site, padding),
        weight_filler=filler(layer.depthwise_initializer),
    )
    param["bias_term"] = False
    site.add("Convolution", "depthwise", blobs=_blobs(site, "depthwise_kernel"), convolution_param=param)
    pointwise = make_message(
        "ConvolutionParameter",
        num_output=layer.filters,
        kernel_size=[1],
        bias_term=None if "bias" in site.weights else False,
        weight_filler=filler(layer.pointwise_initializer),
        bias_filler=filler(layer.bias_initializer),
    )
    site.add("Convolution", blobs=_blobs(site, "pointwise_kernel", "bias"), convolution_param=pointwise)
    site.add_activation(layer.activation)


@exports(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
def _conv_transpose(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    size, rank = site.input_shapes[0][layer.batch_axes + 1 :], len(layer.kernel_size)
    paddings = (layer.padding,) * rank if isinstance(layer.padding, str) else layer.padding
    extras = layer.output_padding or (None,) * rank
    each = zip(size, layer.kernel_size, layer.strides, layer.dilation_rate, paddings, extras, strict=True)
    sizes, pads = zip(*(transposed_conv_shape(*one) for one in each), strict=True)
    sides = symmetric_pads(site, pads)
    geometry = zip(size, layer.kernel_size, layer.strides, layer.dilation_rate, sides, strict=True)
    caffe_sizes = [(n - 1) * stride + dilation * (k - 1) + 1 - 2 * pad for n, k, stride, dilation, pad in geometry]
    if caffe_sizes != list(sizes):
        site.fail(
            f"its output has the size {list(sizes)}, Caffe's Deconvolution gives {caffe_sizes}: output_padding is none"
            " of its fields"
        )
    param = _conv_param(
        site,
        layer,
        layer.filters,
        layer.groups,
        sides,
        axis=_axis(layer),
        weight_filler=filler(layer.kernel_initializer),
        bias_filler=filler(layer.bias_initializer),
    )
    site.add("Deconvolution", blobs=_blobs(site, "kernel", "bias"), convolution_param=param)
    site.add_activation(layer.activation)


@exports(layers.Dense)
def _dense(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    axis = len(site.input_shapes[0]) - 1
    if axis == 0:
        site.fail("its input has no axis but the batch")
    param = make_message(
        "InnerProductParameter",
        num_output=layer.units,
        axis=axis if axis != 1 else None,
        bias_term=None if "bias" in site.weights else False,
        weight_filler=filler(layer.kernel_initializer, unit_axis=1),
        bias_filler=filler(layer.bias_initializer),
    )
    blobs = [site.weights["kernel"].T, *_blobs(site, "bias")]
    site.add("InnerProduct", blobs=blobs, inner_product_param=param)
    site.add_activation(layer.activation)


@exports(layers.Embedding)
def _embedding(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    param = make_message(
        "EmbedParameter",
        num_output=layer.output_dim,
        input_dim=layer.input_dim,
        bias_term=False,
        weight_filler=filler(layer.embeddings_initializer),
    )
    site.add("Embed", blobs=_blobs(site, "embeddings"), embed_param=param)
