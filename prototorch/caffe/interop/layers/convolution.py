"""Convolution and Deconvolution."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.fillers import filler_initializer
from prototorch.caffe.interop.layers.window_params import ConvWindows, conv_windows
from prototorch.layers import (
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Dense,
    Reshape,
)
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import WeightLayout
from prototorch.model.loading.layout.transforms import ReshapeArray

_CONVOLUTIONS: tuple[type[Layer], ...] = (Conv1D, Conv2D, Conv3D)
_DECONVOLUTIONS: tuple[type[Layer], ...] = (Conv1DTranspose, Conv2DTranspose, Conv3DTranspose)


@translator("Convolution", "Deconvolution")
def _convolution(site: CaffeLayerImport) -> None:
    """The same kernel on each bottom, which gives one top. The axes before ``axis`` count as the batch."""
    site.check_counts((1, None), (1, None))
    if len(site.bottoms) != site.num_tops:
        site.fail(
            f"it has {len(site.bottoms)} bottoms and {site.num_tops} tops; expected as many tops as bottoms",
            site.layer,
            "top",
        )
    site.check_same_shapes(site.bottoms, "its bottoms")
    param, shape = site.layer["convolution_param"], site.bottom_shapes[0]
    axis = site.canonical_axis(param["axis"], param)
    spatial = shape[axis + 1 :]
    if len(spatial) > len(_CONVOLUTIONS):
        most = len(_CONVOLUTIONS)
        site.fail(
            f"its input {list(shape)} has {len(spatial)} spatial axes; at most {most} are supported", param, "axis"
        )
    windows = conv_windows(site, len(spatial))
    filters, groups, channels = _check_channels(site)
    is_transposed = site.type == "Deconvolution"
    outer, inner = (channels, filters) if is_transposed else (filters, channels)
    blob = (outer, inner // groups, *windows.kernel)
    fields: dict[str, Any] = {
        "kernel_initializer": filler_initializer(site, param["weight_filler"], blob),
        "use_bias": param["bias_term"],
    }
    if param["bias_term"]:
        fields["bias_initializer"] = filler_initializer(site, param["bias_filler"], (filters,))
    if spatial:
        fields |= _window_fields(site, windows, spatial)
        classes = _DECONVOLUTIONS if is_transposed else _CONVOLUTIONS
        layer = classes[len(spatial) - 1](filters=filters, groups=groups, batch_axes=axis, **fields)
        site.add_for_each_bottom(layer)
    elif groups == 1 and axis > 0:  # a step of a sequence, or a sample, is a vector
        dense = Dense(units=filters, **fields)
        site.add_for_each_bottom(dense, _plain_layouts(param) if is_transposed else None)
    else:
        _grouped_matrix(site, fields, filters, groups, axis, blob)


def _check_channels(site: CaffeLayerImport) -> tuple[int, int, int]:
    """The number of filters, groups and channels."""
    param, shape = site.layer["convolution_param"], site.bottom_shapes[0]
    channels = shape[site.canonical_axis(param["axis"], param)]
    filters, groups = param["num_output"] or 0, param["group"]
    if filters < 1:
        problem = ", not 0" if param.has("num_output") else "; it is missing"
        site.fail(f"num_output must be at least 1{problem}", param, "num_output")
    if groups < 1:
        site.fail("group must be at least 1, not 0", param, "group")
    if channels % groups:
        site.fail(
            f"the {channels} channels of its input {list(shape)} do not divide into {groups} groups", param, "group"
        )
    if filters % groups:
        site.fail(f"num_output {filters} does not divide into {groups} groups", param, "num_output")
    return filters, groups, channels


def _window_fields(site: CaffeLayerImport, windows: ConvWindows, spatial: tuple[int, ...]) -> dict[str, Any]:
    """The fields of our layer's windows."""
    param = site.layer["convolution_param"]
    pads = tuple((p, p) for p in windows.pad)
    each = list(zip(spatial, windows.kernel, windows.stride, windows.pad, windows.dilation, strict=True))
    is_valid = not any(windows.pad)
    if site.type == "Deconvolution":
        sizes = [(n - 1) * s + (k - 1) * d + 1 - 2 * p for n, k, s, p, d in each]
        # "valid" ends with zeros where the stride is larger than the kernel
        is_valid = is_valid and all(s <= (k - 1) * d + 1 for _, k, s, _, d in each)
        if min(sizes) < 1:
            site.fail(f"its output would have the size {sizes}: the pad takes away more than there is", param, "pad")
    else:
        pads = windows.pads_within(spatial)
        is_valid = not any(map(any, pads))
        for i, (n, k, s, p, d) in enumerate(each):
            extent = (k - 1) * d + 1
            if extent - n - 2 * p >= s:
                dilated = f" with dilation {d} (extent {extent})" if d > 1 else ""
                site.fail(
                    f"kernel size {k}{dilated} exceeds the padded input size {n + 2 * p} "
                    f"(axis {i} of {list(spatial)}); make it smaller, or the pad or the input larger",
                    param,
                    "kernel_size" if param.has("kernel_size") else f"kernel_{'hw'[i]}",
                )
    return {
        "kernel_size": windows.kernel,
        "strides": windows.stride,
        "padding": "valid" if is_valid else pads,
        "dilation_rate": windows.dilation,
    }


def _plain_layouts(param: Any) -> list[WeightLayout]:
    """A matrix stored as Dense has it, [inputs, outputs], and the bias."""
    names = ["kernel", "bias"] if param["bias_term"] else ["kernel"]
    return [WeightLayout((name,), (str(i),)) for i, name in enumerate(names)]


def _grouped_matrix(
    site: CaffeLayerImport, fields: dict[str, Any], filters: int, groups: int, axis: int, blob: tuple[int, ...]
) -> None:
    """A convolution without spatial axes in several groups: one over a single step."""
    kind = Conv1DTranspose if site.type == "Deconvolution" else Conv1D
    shape = site.bottom_shapes[0]
    flat = Reshape(target_shape=(*shape[1:axis], filters)) if axis else Reshape(target_shape=(filters,), axis=0)
    layouts = _plain_layouts(site.layer["convolution_param"])
    layouts[0] = WeightLayout(("kernel",), ("0",), ReshapeArray((*blob, 1), blob))
    layer: Layer = kind(filters=filters, kernel_size=1, groups=groups, batch_axes=axis, **fields)
    tops: list[str] = []
    for index, bottom in enumerate(site.bottoms):
        more = "" if index == 0 else f"{index}/"
        (wide,) = site.add(Reshape(target_shape=(*shape[1:], 1)), bottom, suffix=f"{more}step")
        (conv,) = site.add(layer, wide, suffix=more.strip("/"), layouts=layouts if index == 0 else None)
        tops += site.add(flat, conv, suffix=f"{more}flat")
        layer = layer.replace(weights=site.node_name)
    site.tops = tuple(tops)
