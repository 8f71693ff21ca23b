"""Local response normalization across channels, in either layout: a window is read again from the cache."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

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

Specs = tuple[Spec, ...]
#: beta -> base ^ -beta without a general power; with the reciprocal root, which the hardware has, 1 / base as well
_NEGATIVE_POWERS = {0.75: "root_of(base) * root_of(base * root_of(base))", 0.5: "root_of(base)", 1.0: "1 / base"}


def _lrn_source(x: Spec, attrs: dict[str, Any], pack: int = 1) -> str:
    macros: dict[str, str | int] = {"X": c_type(x), "C": x.shape[1], "SIZE": attrs["size"]}
    macros["STEP"] = 1 if x.layout else prod(x.shape[2:])
    macros["root_of"] = "rsqrt" if x.dtype == "float64" else "rsqrtf"
    macros["POWER"] = _NEGATIVE_POWERS.get(attrs["beta"], f"pow_of(base, (A)-{attrs['beta']!r})")
    macros["INVERSE"] = "root_of(base) * root_of(base)" if attrs["beta"] in (0.5, 0.75) else "1 / base"
    macros.update({"PACK": pack, "ACTIVATION_MASK": int(attrs.get("through_relu", False))})
    return kernel_source("lrn", 2 * x.size, **macros)


def _recompute_launch(
    name: str, x: Spec, attrs: dict[str, Any], arrays: tuple[Any, ...], more: tuple[Any, ...]
) -> LaunchSequence:
    """A launch without the base; ``more``: numbers after those of the base."""
    acc_type = np.float64 if x.dtype == "float64" else np.float32
    pack = vector_width(x, x.shape[1]) if x.layout else 1
    n, largest = x.size // pack, 2 * x.size
    numbers = (acc_type(attrs["alpha"] / attrs["size"]), acc_type(attrs["k"]), *map(acc_type, more))
    return LaunchSequence(
        grid_stride_launch(_lrn_source(x, attrs, pack), name, n, index_scalar(n, largest), *arrays, *numbers)
    )


@cuda_kernel("lrn_recompute", layouts=True)
def lrn_recompute(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The output alone."""
    x = ins[0]
    return (
        _recompute_launch("lrn_recompute", x, attrs, (InputArg(0), OutputArg(0)), ())
        if x.is_float and outs[0] == x
        else None
    )


@cuda_kernel("lrn_recompute_grad", layouts=True)
def lrn_recompute_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The gradient of x without the base."""
    x = ins[1]
    if not x.is_float or any(s != x for s in (*ins, *outs)):
        return None
    factor = 2 * attrs["alpha"] * attrs["beta"] / attrs["size"]
    return _recompute_launch("lrn_recompute_grad", x, attrs, (InputArg(0), InputArg(1), OutputArg(0)), (factor,))


@cuda_kernel("lrn", layouts=True)
def lrn(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The output and the base of the power."""
    x = ins[0]
    if not x.is_float or any(o != x for o in outs):
        return None
    acc_type = np.float64 if x.dtype == "float64" else np.float32
    args = (
        index_scalar(x.size, 2 * x.size),
        InputArg(0),
        OutputArg(0),
        OutputArg(1),
        acc_type(attrs["alpha"] / attrs["size"]),
        acc_type(attrs["k"]),
    )
    return LaunchSequence(grid_stride_launch(_lrn_source(x, attrs), "lrn", x.size, *args))


@cuda_kernel("lrn_grad", layouts=True)
def lrn_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """The gradient of x."""
    x = ins[0]
    if not x.is_float or any(s != x for s in (*ins, *outs)):
        return None
    acc_type = np.float64 if x.dtype == "float64" else np.float32
    factor = acc_type(2 * attrs["alpha"] * attrs["beta"] / attrs["size"])
    args = (index_scalar(x.size, 2 * x.size), InputArg(0), InputArg(1), InputArg(2), OutputArg(0), factor)
    return LaunchSequence(grid_stride_launch(_lrn_source(x, attrs), "lrn_grad", x.size, *args))
