"""The kernel, stride, pad and dilation of Caffe's layers with windows, in all spellings."""

from __future__ import annotations

from dataclasses import dataclass

from prototorch.caffe.interop.layer_import import CaffeLayerImport
from prototorch.caffe.text.message import Message
from prototorch.errors import ModelWarning, warn_user

__all__ = ["ConvWindows", "PoolWindows", "conv_windows", "pool_windows", "stride_and_pad"]

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]
_LETTERS = ("h", "w")


@dataclass(frozen=True)
class ConvWindows:
    """The windows of a Convolution, Deconvolution or Im2col layer, a number for each spatial axis."""

    kernel: Sizes
    stride: Sizes
    pad: Sizes
    dilation: Sizes

    def pads_within(self, sizes: Sizes) -> Pads:
        """The padding (before, after) of inputs of these sizes.

        Caffe rounds the number of windows towards 0. So there is one window if the kernel reaches over the padded
        input's end by less than a stride: zeros are read there.
        """
        pads = []
        for n, k, s, p, d in zip(sizes, self.kernel, self.stride, self.pad, self.dilation, strict=True):
            beyond = (k - 1) * d + 1 - n - 2 * p
            pads.append((p, p + beyond if 0 < beyond < s else p))
        return tuple(pads)


@dataclass(frozen=True)
class PoolWindows:
    """The windows of a Pooling layer over rows and columns."""

    kernel: Sizes
    stride: Sizes
    pad: Sizes


def conv_windows(site: CaffeLayerImport, axes: int) -> ConvWindows:
    """What a layer's convolution_param says for this number of spatial axes. Raises TextError."""
    param = site.layer["convolution_param"]
    kernel = _size_per_axis(site, param, "kernel_size", "kernel", axes, None)
    stride = _size_per_axis(site, param, "stride", "stride", axes, 1)
    pad = _size_per_axis(site, param, "pad", "pad", axes, 0)
    dilation = _size_per_axis(site, param, "dilation", None, axes, 1)
    for name, values in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if 0 in values:
            spelled = name if param.has(name) else f"{name.removesuffix('_size')}_{_LETTERS[values.index(0)]}"
            site.fail(f"{spelled} must be at least 1, not 0", param, spelled)
    return ConvWindows(kernel, stride, pad, dilation)


def pool_windows(site: CaffeLayerImport) -> PoolWindows:
    """What a layer's pooling_param says, which is not global. Raises TextError."""
    param = site.layer["pooling_param"]
    kernel = _size_pair(site, param, "kernel_size", "kernel", None)
    stride, pad = stride_and_pad(site)
    for name, values in (("kernel", kernel), ("stride", stride)):
        if 0 in values:
            spelled = f"{name}_{_LETTERS[values.index(0)]}"
            spelled = spelled if param.has(spelled) else {"kernel": "kernel_size", "stride": "stride"}[name]
            site.fail(f"{spelled} must be at least 1, not 0", param, spelled)
    for letter, k, p in zip(_LETTERS, kernel, pad, strict=True):
        if p >= k:
            spelled = f"pad_{letter}" if param.has(f"pad_{letter}") else "pad"
            site.fail(f"pad {p} must be smaller than the kernel {k}, or a window is empty", param, spelled)
    return PoolWindows(kernel, stride, pad)


def stride_and_pad(site: CaffeLayerImport) -> tuple[Sizes, Sizes]:
    """The stride and the pad of a layer's pooling_param. Raises TextError."""
    param = site.layer["pooling_param"]
    return _size_pair(site, param, "stride", "stride", 1), _size_pair(site, param, "pad", "pad", 0)


def _size_per_axis(
    site: CaffeLayerImport, param: Message, name: str, prefix: str | None, axes: int, default: int | None
) -> Sizes:
    """A repeated field of one value, or one for each spatial axis; or its spelling by _h and _w for two axes."""
    stated = param[name]
    by_letter = [f"{prefix}_{letter}" for letter in _LETTERS if prefix and param.has(f"{prefix}_{letter}")]
    if by_letter:
        if stated:
            site.fail(f"it has both {name} and {by_letter[0]}: state one of them", param, by_letter[0])
        if axes != 2:
            site.fail(
                f"{by_letter[0]} is for 2 spatial axes, but its input {list(site.bottom_shapes[0])} has {axes} "
                f"behind its axis; use {name}",
                param,
                by_letter[0],
            )
        return tuple(param[f"{prefix}_{letter}"] or 0 for letter in _LETTERS)
    if not stated and (default is not None or axes == 0):
        return (default or 1,) * axes if default != 0 else (0,) * axes
    if len(stated) not in (1, axes):
        once = f"it has {len(stated)} values of {name}" if stated else f"{name} is missing"
        site.fail(
            f"{once}; expected 1, or one for each of the {axes} spatial axes of its input "
            f"{list(site.bottom_shapes[0])}",
            param,
            name,
        )
    return tuple(stated) if len(stated) == axes else tuple(stated) * axes


def _size_pair(site: CaffeLayerImport, param: Message, name: str, prefix: str, default: int | None) -> Sizes:
    """A field, or its spelling by _h and _w, both of which must then be there."""
    by_letter = [f"{prefix}_{letter}" for letter in _LETTERS]
    present = [n for n in by_letter if param.has(n)]
    if name == "kernel_size" and param.has(name) and len(present) == 1:
        place = param.field_span(present[0])
        text = f"layer {site.name!r} (Pooling): Caffe ignores {present[0]} beside {name} {param[name]}, which holds"
        warn_user(f"{place}: {text}" if place else text, ModelWarning)
        return (param[name],) * 2
    if present and param.has(name):
        site.fail(f"it has both {name} and {present[0]}: state one of them", param, present[0])
    if len(present) == 1:
        missing = next(n for n in by_letter if n not in present)
        site.fail(f"it has {present[0]}, but not {missing}: state both, or {name}", param, present[0])
    if present:
        return tuple(param[n] for n in by_letter)
    if default is None and not param.has(name):
        site.fail(f"{name} is missing: state it, or {' and '.join(by_letter)}", param, name)
    return (param[name],) * 2
