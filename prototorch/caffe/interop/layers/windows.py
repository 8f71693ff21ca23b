"""Layers over windows: Pooling, SPP, Im2col, LRN."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.window_params import PoolWindows, conv_windows, pool_windows, stride_and_pad
from prototorch.caffe.interop.numbers import field_number
from prototorch.layers import (
    LRN,
    AveragePooling2D,
    Cast,
    GlobalAveragePooling2D,
    MaxPooling2D,
    SpatialPyramidPooling2D,
    StochasticPooling2D,
    Unfold,
)

_POOLINGS = {"MAX": "max", "AVE": "average", "STOCHASTIC": "stochastic"}
_KERNEL_FIELDS = ("kernel_size", "kernel_h", "kernel_w")


def _check_image(site: CaffeLayerImport) -> tuple[int, int]:
    """The rows and columns of the first bottom, which must have 4 axes."""
    shape = site.bottom_shapes[0]
    if len(shape) != 4:
        site.fail(
            f"its input must have 4 axes (samples, channels, rows, columns), not {len(shape)}: {list(shape)}",
            site.layer,
            "bottom",
        )
    return shape[2], shape[3]


# ---------------------------------------------------------------- pooling


@translator("Pooling")
def _pooling(site: CaffeLayerImport) -> None:
    """MAX with a second top gives the positions of the maxima, as floating-point numbers."""
    param = site.layer["pooling_param"]
    site.check_counts(1, (1, 2 if param["pool"] == "MAX" else 1))
    if param["global_pooling"]:
        _check_global(site)
        size = _check_image(site)
        return _add_global(site, param["pool"], size)
    windows = pool_windows(site)
    size = _check_image(site)
    if any(windows.pad) and param["pool"] == "STOCHASTIC":
        site.fail("STOCHASTIC pooling has no padding", param, "pad" if param.has("pad") else "pad_h")
    fields = _pool_fields(site, size, windows)
    if param["pool"] == "STOCHASTIC":
        fields.pop("padding", None)
        site.add(StochasticPooling2D(**fields))
    elif param["pool"] == "AVE":
        more = {"count_include_pad": True} if any(windows.pad) else {}
        site.add(AveragePooling2D(**fields, **more))
    else:
        _add_max(site, fields)
    return None


def _check_global(site: CaffeLayerImport) -> None:
    """Global pooling states no window."""
    param = site.layer["pooling_param"]
    for name in _KERNEL_FIELDS:
        if param.has(name):
            site.fail(f"with global_pooling the window is the whole image; leave {name} out", param, name)
    stride_and_pad(site)
    for name, value in (("stride", 1), ("stride_h", 1), ("stride_w", 1), ("pad", 0), ("pad_h", 0), ("pad_w", 0)):
        if param.has(name) and param[name] != value:
            site.fail(f"with global_pooling {name} must be {value}, not {param[name]}; leave it out", param, name)


def _add_global(site: CaffeLayerImport, pool: str, size: tuple[int, int]) -> None:
    """One window, the whole image."""
    if pool == "AVE":
        site.add(GlobalAveragePooling2D(keepdims=True))
    elif pool == "MAX":  # not GlobalMaxPooling2D: of equal elements the first has the gradient
        _add_max(site, {"pool_size": size})
    else:
        site.add(StochasticPooling2D(pool_size=size))


def _add_max(site: CaffeLayerImport, fields: dict[str, Any]) -> None:
    if site.num_tops == 1:
        site.add(MaxPooling2D(**fields))
        return
    y, positions = site.add(MaxPooling2D(**fields, return_indices=True), outputs=2)
    (mask,) = site.add(Cast(dtype=site.trace.float_dtype), positions, suffix="mask")
    site.tops = (y, mask)


def _pool_fields(site: CaffeLayerImport, size: tuple[int, int], windows: PoolWindows) -> dict[str, Any]:
    """The fields of our layer. Raises TextError where there is no window, or one wholly outside of the image."""
    param = site.layer["pooling_param"]
    ceil, has_padding = param["round_mode"] == "CEIL", any(windows.pad)
    kernel = []
    for axis, (n, k, s, p) in enumerate(zip(size, windows.kernel, windows.stride, windows.pad, strict=True)):
        name = "kernel_size" if param.has("kernel_size") else _KERNEL_FIELDS[1 + axis]
        beyond = k - n - 2 * p
        if beyond > 0 and (not ceil or beyond >= s):
            site.fail(
                f"kernel {k} exceeds the padded input size {n + 2 * p} (axis {axis} of {list(size)}); make it smaller, "
                "or the pad or the input larger",
                param,
                name,
            )
        last = max(-(-(n - k) // s), 0) * s
        if ceil and not has_padding and last >= n:
            site.fail(
                f"its last window along axis {axis} of {list(size)} would start at {last}, outside of the {n} elements "
                f"(kernel {k}, stride {s}, rounded up); write round_mode: FLOOR, which leaves it out",
                param,
                name,
            )
        kernel.append(min(k, n + 2 * p))
    fields: dict[str, Any] = {"pool_size": tuple(kernel), "strides": windows.stride}
    if has_padding:
        fields["padding"] = tuple((p, p) for p in windows.pad)
    if ceil and any(s > 1 for s in windows.stride):
        fields["ceil_mode"] = True
    return fields


@translator("SPP")
def _spp(site: CaffeLayerImport) -> None:
    """A pyramid of one level has the axes of an image, those of several levels are flattened."""
    site.check_counts(1, 1)
    param = site.layer["spp_param"]
    size, levels = _check_image(site), param["pyramid_height"] or 0
    if levels < 1:
        problem = ", not 0" if param.has("pyramid_height") else "; it is missing"
        site.fail(f"pyramid_height must be at least 1{problem}", param, "pyramid_height")
    if levels == 1:
        _add_global(site, param["pool"], size)
    else:
        site.add(SpatialPyramidPooling2D(levels=levels, pooling=_POOLINGS[param["pool"]]))


# ---------------------------------------------------------------- other windows


@translator("Im2col")
def _im2col(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    param, shape = site.layer["convolution_param"], site.bottom_shapes[0]
    axis = site.canonical_axis(param["axis"], param)
    spatial = shape[axis + 1 :]
    if not 1 <= len(spatial) <= 3:
        site.fail(
            f"its input {list(shape)} has {len(spatial)} spatial axes behind axis {axis}; 1 to 3 are supported",
            param,
            "axis",
        )
    windows = conv_windows(site, len(spatial))
    site.add(
        Unfold(
            kernel_size=windows.kernel,
            strides=windows.stride,
            padding=windows.pad,
            dilation_rate=windows.dilation,
            batch_axes=axis,
        )
    )


@translator("LRN")
def _lrn(site: CaffeLayerImport) -> None:
    """WITHIN_CHANNEL ignores k, which is 1 there."""
    site.check_counts(1, 1)
    _check_image(site)
    param = site.layer["lrn_param"]
    size, within = param["local_size"], param["norm_region"] == "WITHIN_CHANNEL"
    if size % 2 == 0:
        site.fail(f"local_size must be odd, so that the window has a middle, not {size}", param, "local_size")
    alpha, beta, k = (field_number(site, param[name]) for name in ("alpha", "beta", "k"))
    fields = {"region": "within_channel"} if within else {"k": k}
    site.add(LRN(size=size, alpha=alpha, beta=beta, **fields))
