"""Layers over windows as Pooling (STOCHASTIC), SPP and Im2col, and CropLike as Crop."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.interop.export.pooling import check_last_windows
from prototorch.caffe.interop.export.products import window_fields


@exports(layers.StochasticPooling2D)
def _stochastic_pooling(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    size, kernel, strides = site.input_shapes[0][2:], layer.pool_size, layer.strides or layer.pool_size
    is_exact = all((n - k) % s == 0 for n, k, s in zip(size, kernel, strides, strict=True))
    if layer.ceil_mode:
        check_last_windows(site, size, kernel, strides)
    param = make_message(
        "PoolingParameter",
        pool="STOCHASTIC",
        kernel_h=kernel[0],
        kernel_w=kernel[1],
        stride_h=strides[0],
        stride_w=strides[1],
        round_mode=None if layer.ceil_mode or is_exact else "FLOOR",
    )
    site.add("Pooling", pooling_param=param)


@exports(layers.SpatialPyramidPooling2D)
def _pyramid(site: CaffeLayerExport) -> None:
    """Caffe does not flatten a pyramid of one level."""
    layer: Any = site.layer
    pool = {"max": None, "average": "AVE", "stochastic": "STOCHASTIC"}[layer.pooling]
    param = make_message("SPPParameter", pyramid_height=layer.levels, pool=pool)
    site.add("SPP", "pool" if layer.levels == 1 else "", spp_param=param)
    if layer.levels == 1:
        site.add("Flatten")


@exports(layers.Unfold)
def _unfold(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    param = make_message(
        "ConvolutionParameter",
        kernel_size=window_fields(layer.kernel_size),
        pad=window_fields(layer.padding, 0),
        stride=window_fields(layer.strides, 1),
        dilation=window_fields(layer.dilation_rate, 1),
        axis=layer.batch_axes if layer.batch_axes != 1 else None,
    )
    site.add("Im2col", convolution_param=param)


@exports(layers.CropLike)
def _crop(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    offsets = [] if set(layer.offsets) == {0} else list(layer.offsets)
    axis = layer.axis if layer.axis != 2 else None
    site.add("Crop", crop_param=make_message("CropParameter", axis=axis, offset=offsets))


@exports(layers.Cast)
def _cast(site: CaffeLayerExport) -> None:
    """Blobs are floating-point numbers in any case."""
    layer: Any = site.layer
    if not layer.dtype.startswith("float"):
        site.fail(f"dtype {layer.dtype}: Caffe has floating-point numbers alone")
    site.pass_through()
