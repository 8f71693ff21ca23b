"""A part of each picture, at a place of its own, read as it lies: pictures are cropped as the bytes they came as."""

from __future__ import annotations

from typing import Any

from prototorch.backends.cuda.kernels.launch import (
    In,
    Launches,
    Out,
    c_type,
    cuda_kernel,
    index,
    launch,
    pack_of,
    source,
)  # fmt: skip
from prototorch.spec import Spec

MOST = 4  # neighbours that a thread makes: what it reads does not begin at a multiple of them


@cuda_kernel("crop")
def crop(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """One sweep."""
    x, y = ins[0], outs[0]
    _, channels, rows, columns = x.shape
    pack = min(pack_of(y, attrs["width"]), MOST)
    text = source(
        "crop", x.size, X=c_type(x), C=channels, H=rows, W=columns, HEIGHT=attrs["height"], WIDTH=attrs["width"],
        PACK=pack,
    )  # fmt: skip
    n = y.size // pack
    return Launches(launch(text, "crop", n, index(n, x.size), In(0), In(1), In(2), Out(0)))
