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
    pack_of,
    source,
)  # fmt: skip
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
#: beta -> base ^ -beta without a general power; with the reciprocal root, which the hardware has, 1 / base as well
_POWERS = {0.75: "root_of(base) * root_of(base * root_of(base))", 0.5: "root_of(base)", 1.0: "1 / base"}


def _text(x: Spec, attrs: dict[str, Any], pack: int = 1) -> str:
    names: dict[str, str | int] = {"X": c_type(x), "C": x.shape[1], "SIZE": attrs["size"]}
    names["STEP"] = 1 if x.layout else prod(x.shape[2:])
    names["root_of"] = "rsqrt" if x.dtype == "float64" else "rsqrtf"
    names["POWER"] = _POWERS.get(attrs["beta"], f"power_of(base, (A)-{attrs['beta']!r})")
    names["INVERSE"] = "root_of(base) * root_of(base)" if attrs["beta"] in (0.5, 0.75) else "1 / base"
    names.update({"PACK": pack, "SLOPE": int(attrs.get("slope", False))})
    return source("lrn", 2 * x.size, **names)


def _alone(name: str, x: Spec, attrs: dict[str, Any], arrays: tuple[Any, ...], more: tuple[Any, ...]) -> Launches:
    """A launch without the base; ``more``: numbers after those of the base."""
    number = np.float64 if x.dtype == "float64" else np.float32
    pack = pack_of(x, x.shape[1]) if x.layout else 1
    n, largest = x.size // pack, 2 * x.size
    numbers = (number(attrs["alpha"] / attrs["size"]), number(attrs["k"]), *map(number, more))
    return Launches(launch(_text(x, attrs, pack), name, n, index(n, largest), *arrays, *numbers))


@cuda_kernel("lrn_alone", layouts=True)
def lrn_alone(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The output alone."""
    x = ins[0]
    return _alone("lrn_alone", x, attrs, (In(0), Out(0)), ()) if x.is_float and outs[0] == x else None


@cuda_kernel("lrn_alone_grad", layouts=True)
def lrn_alone_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """The gradient of x without the base."""
    x = ins[1]
    if not x.is_float or any(s != x for s in (*ins, *outs)):
        return None
    factor = 2 * attrs["alpha"] * attrs["beta"] / attrs["size"]
    return _alone("lrn_alone_grad", x, attrs, (In(0), In(1), Out(0)), (factor,))


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
