"""Crops of images at an offset of their own, in the dtype that they have: images are cropped as bytes."""

from __future__ import annotations

from typing import Any

from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
    vector_width,
)
from prototorch.spec import Spec

MAX_VECTOR = 4  # neighbours that a thread writes; what it reads is not aligned


@cuda_kernel("crop")
def crop(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """One crop for each image."""
    x, y = ins[0], outs[0]
    _, channels, rows, columns = x.shape
    pack = min(vector_width(y, attrs["width"]), MAX_VECTOR)
    text = kernel_source(
        "crop",
        x.size,
        X=c_type(x),
        C=channels,
        H=rows,
        W=columns,
        HEIGHT=attrs["height"],
        WIDTH=attrs["width"],
        PACK=pack,
    )
    n = y.size // pack
    return LaunchSequence(
        grid_stride_launch(
            text, "crop", n, index_scalar(n, x.size), InputArg(0), InputArg(1), InputArg(2), OutputArg(0)
        )
    )
