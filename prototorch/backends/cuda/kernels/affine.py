"""Pictures seen through an affine map each: what augmentation turns, zooms and shifts by."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.launch import (
    In,
    Launches,
    Out,
    c_type,
    cuda_kernel,
    index,
    launch,
    source,
)  # fmt: skip
from prototorch.spec import Spec

_MODES = {"constant": 0, "nearest": 1, "reflect": 2, "wrap": 3}
_FLOATS = ("float32", "float64")


@cuda_kernel("affine_sample", layouts=True)
def affine_sample(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """All channels of a pixel by one thread."""
    x, matrices = ins
    if not x.is_float or matrices.dtype not in _FLOATS or outs[0] != x or matrices.layout:
        return None
    samples, channels, rows, columns = x.shape
    text = source(
        "affine", x.size, X=c_type(x), M=c_type(matrices), C=channels, H=rows, W=columns,
        CHANNEL=1 if x.layout else rows * columns, PIXEL=channels if x.layout else 1,
        MODE=_MODES[attrs.get("fill_mode", "reflect")],
        NEAREST=int(attrs.get("interpolation", "bilinear") == "nearest"),
    )  # fmt: skip
    number = np.float64 if x.dtype == "float64" else np.float32
    pixels = samples * rows * columns
    fill = number(attrs.get("fill_value", 0.0))
    return Launches(launch(text, "affine_sample", pixels, index(pixels, x.size), In(0), In(1), Out(0), fill))
