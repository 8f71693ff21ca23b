"""Layers that change shapes: Concat, Slice, Reshape, Tile, Reduction, and enlargement by Deconvolution."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.text.message import Message


@exports(layers.Concatenate)
def _concatenate(site: CaffeLayerExport) -> None:
    axis = site.layer.axis % len(site.input_shapes[0])  # type: ignore[attr-defined]
    site.add("Concat", concat_param=make_message("ConcatParameter", axis=axis if axis != 1 else None))


@exports(layers.Split)
def _split(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    axis = layer.axis % len(site.input_shapes[0])
    points = list(accumulate(layer.sizes))[:-1]
    if not points:
        site.pass_through()
        return
    param = make_message("SliceParameter", axis=axis if axis != 1 else None, slice_point=points)
    site.add("Slice", num_tops=len(layer.sizes), slice_param=param)


@exports(layers.Copies)
def _copies(site: CaffeLayerExport) -> None:
    site.add("Split", num_tops=site.layer.count)  # type: ignore[attr-defined]


@exports(layers.Slice)
def _slice(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    shape = site.input_shapes[0]
    for number, axis in enumerate(layer.axes):
        step = 1 if layer.steps is None else layer.steps[number]
        if step != 1:
            site.fail("Caffe's Slice takes parts without gaps: steps must be 1")
        start, stop, _ = slice(layer.starts[number], layer.stops[number]).indices(shape[axis])
        bounds = sorted({start, stop} - {0, shape[axis]})
        if not bounds:
            continue
        last = number == len(layer.axes) - 1
        slice_layer = site.add(
            "Slice",
            "" if last else f"axis{axis}",
            num_tops=len(bounds) + 1,
            slice_param=make_message("SliceParameter", axis=axis if axis != 1 else None, slice_point=bounds),
        )
        tops = list(slice_layer["top"])
        used_top = tops.pop([0, *bounds].index(start))
        site.layers.append(
            Message("LayerParameter", name=f"{slice_layer['name']}_silence", type="Silence", bottom=tops)
        )
        site.tops = (used_top,)
    site.pass_through()


@exports(layers.Reshape)
def _reshape(site: CaffeLayerExport) -> None:
    axis = site.layer.axis  # type: ignore[attr-defined]
    shape = Message("BlobShape", dim=[*[0] * axis, *site.output_shapes[0][axis:]])
    site.add("Reshape", reshape_param=Message("ReshapeParameter", shape=shape))


@exports(layers.Tile)
def _tile(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    first = 1 if layer.axis is None else layer.axis % len(site.input_shapes[0])
    for axis, count in enumerate(layer.repeats, first):
        if count != 1:
            param = make_message("TileParameter", axis=axis if axis != 1 else None, tiles=count)
            site.add("Tile", f"axis{axis}" if axis < first + len(layer.repeats) - 1 else "", tile_param=param)
    site.pass_through()


@exports(layers.ReduceSum, layers.ReduceMean)
def _reduce(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    count = len(site.input_shapes[0])
    axes = sorted(a % count for a in layer.axis) if layer.axis is not None else list(range(1, count))
    if layer.keepdims or not axes or axes != list(range(axes[0], count)):
        site.fail("Caffe's Reduction reduces all axes from one on, and drops them")
    operation = "MEAN" if isinstance(layer, layers.ReduceMean) else None
    site.add("Reduction", reduction_param=make_message("ReductionParameter", operation=operation, axis=axes[0]))


@exports(layers.UpSampling2D)
def _upsampling(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if layer.interpolation != "nearest":
        site.fail(f"interpolation: {layer.interpolation}: only nearest is a Deconvolution of ones")
    channels = site.input_shapes[0][1]
    sizes = list(layer.size)
    param = Message(
        "ConvolutionParameter",
        num_output=channels,
        group=channels,
        bias_term=False,
        kernel_size=sizes,
        stride=sizes,
        weight_filler=Message("FillerParameter", type="constant", value=1.0),
    )
    site.add("Deconvolution", blobs=[np.ones((channels, 1, *sizes), np.float32)], frozen=True, convolution_param=param)
