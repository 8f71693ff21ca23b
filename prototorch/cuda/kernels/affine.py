"""Affine sampling of images (rotation, zoom and translation by augmentation), and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
)
from prototorch.spec import Spec

_MODES = {"constant": 0, "nearest": 1, "reflect": 2, "wrap": 3}
_FLOATS = ("float32", "float64")


def _affine_source(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> str | None:
    """The source for images and matrices; None for dtypes that are not supported."""
    x, matrices = ins
    if not x.is_float or matrices.dtype not in _FLOATS or outs[0] != x or matrices.layout:
        return None
    _, channels, rows, columns = x.shape
    return kernel_source(
        "affine",
        x.size,
        X=c_type(x),
        M=c_type(matrices),
        C=channels,
        H=rows,
        W=columns,
        CHANNEL=1 if x.layout else rows * columns,
        PIXEL=channels if x.layout else 1,
        MODE=_MODES[attrs.get("fill_mode", "reflect")],
        NEAREST=int(attrs.get("interpolation", "bilinear") == "nearest"),
    )


@cuda_kernel("affine_sample", layouts=True)
def affine_sample(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """One thread computes all channels of a pixel."""
    source, x = _affine_source(ins, outs, attrs), ins[0]
    if source is None:
        return None
    number = np.float64 if x.dtype == "float64" else np.float32
    pixels = x.size // x.shape[1]
    fill = number(attrs.get("fill_value", 0.0))
    return LaunchSequence(
        grid_stride_launch(
            source, "affine_sample", pixels, index_scalar(pixels, x.size), InputArg(0), InputArg(1), OutputArg(0), fill
        )
    )


@cuda_kernel("affine_sample_grad", layouts=True)
def affine_sample_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """One thread sums all contributions to a row of an image in a fixed order; 16-bit dtypes are summed in float32."""
    source, g = _affine_source(ins, outs, attrs), ins[0]
    if source is None:
        return None
    rows = g.shape[0] * g.shape[2]
    sums_in_place = g.dtype in _FLOATS
    args = (
        index_scalar(rows, g.size),
        InputArg(0),
        InputArg(1),
        OutputArg(0) if sums_in_place else WorkspaceArg(),
        OutputArg(0),
    )
    return LaunchSequence(
        grid_stride_launch(source, "affine_sample_grad", rows, *args, block=32),
        workspace_bytes=0 if sums_in_place else 4 * g.size,
    )
