"""Local response normalisation across channels, in either layout: a window is read again from the cache."""

from __future__ import annotations

from math import prod
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

Specs = tuple[Spec, ...]
#: beta -> base ^ -beta without a general power
_POWERS = {0.75: "1 / (sqrt_of(base) * sqrt_of(sqrt_of(base)))", 0.5: "1 / sqrt_of(base)", 1.0: "1 / base"}


def _text(x: Spec, attrs: dict[str, Any]) -> str:
    wide = x.dtype == "float64"
    names: dict[str, str | int] = {"X": c_type(x), "C": x.shape[1], "SIZE": attrs["size"]}
    names["STEP"] = 1 if x.layout else prod(x.shape[2:])
    names["sqrt_of"] = "sqrt" if wide else "sqrtf"
    names["POWER"] = _POWERS.get(attrs["beta"], f"power_of(base, (A)-{attrs['beta']!r})")
    return source("lrn", 2 * x.size, **names)


@cuda_kernel("lrn", layouts=True)
def lrn(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The output and the base of the power."""
    x = ins[0]
    if not x.is_float or any(o != x for o in outs):
        return None
    number = np.float64 if x.dtype == "float64" else np.float32
    args = (
        index(x.size, 2 * x.size),
        In(0),
        Out(0),
        Out(1),
        number(attrs["alpha"] / attrs["size"]),
        number(attrs["k"]),
    )
    return Launches(launch(_text(x, attrs), "lrn", x.size, *args))


@cuda_kernel("lrn_grad", layouts=True)
def lrn_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The gradient of x."""
    x = ins[0]
    if not x.is_float or any(s != x for s in (*ins, *outs)):
        return None
    number = np.float64 if x.dtype == "float64" else np.float32
    factor = number(2 * attrs["alpha"] * attrs["beta"] / attrs["size"])
    args = (index(x.size, 2 * x.size), In(0), In(1), In(2), Out(0), factor)
    return Launches(launch(_text(x, attrs), "lrn_grad", x.size, *args))
