"""Pooling: one thread computes each output element, so that the result does not depend on the order of threads."""

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

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _pool_launch(
    name: str, x: Spec, small: Spec, large: Spec, outs: tuple[Spec, ...], count: Spec, attrs: dict[str, Any], ins: int
) -> LaunchSequence | None:
    """x: whose element type and layout count; small: after the pooling; large: before it; count: what threads make."""
    kernel = attrs["kernel"]
    rank = len(kernel)
    if x.dtype not in _FLOATS or not 1 <= rank <= 3:
        return None
    missing_axes = 3 - rank
    is_channels_last = x.layout is not None
    pack = vector_width(x, x.shape[1]) if is_channels_last else 1
    macros: dict[str, str | int] = {
        "X": c_type(x),
        "C": x.shape[1],
        "PACK": pack,
        "CHANNELS_LAST": int(is_channels_last),
    }
    macros["INCLUDE_PAD"] = int(attrs.get("include_pad", False))
    for k, axis in enumerate("DHW"):
        i = k - missing_axes
        is_pooled = i >= 0
        macros[f"I{axis}"] = large.shape[2 + i] if is_pooled else 1
        macros[f"O{axis}"] = small.shape[2 + i] if is_pooled else 1
        macros[f"K{axis}"] = kernel[i] if is_pooled else 1
        macros[f"S{axis}"] = attrs["strides"][i] if is_pooled else 1
        macros[f"P{axis}"], macros[f"E{axis}"] = attrs["pads"][i] if is_pooled else (0, 0)
    largest = max(small.size, large.size)
    n = count.size // pack
    arrays = (*(InputArg(i) for i in range(ins)), *(OutputArg(i) for i in range(len(outs))))
    return LaunchSequence(
        grid_stride_launch(kernel_source("pool", largest, **macros), name, n, index_scalar(n, largest), *arrays)
    )


def _have_same_layout(*specs: Spec) -> bool:
    return len({s.layout for s in specs}) == 1


@cuda_kernel("max_pool", layouts=True)
def max_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """The largest of each window and its number."""
    if not _have_same_layout(*ins, *outs):
        return None
    return _pool_launch("max_pool", ins[0], outs[0], ins[0], outs, outs[0], attrs, 1)


@cuda_kernel("max_pool_grad", layouts=True)
def max_pool_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """The adjoint of `max_pool`."""
    if not _have_same_layout(*ins, *outs):
        return None
    return _pool_launch("max_pool_grad", ins[0], ins[0], outs[0], outs, outs[0], attrs, 2)


@cuda_kernel("gather_pool_indices", layouts=True)
def gather_pool_indices(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """Of each window the element with the given number."""
    if not _have_same_layout(*ins, *outs):
        return None
    return _pool_launch("gather_pool_indices", ins[0], outs[0], ins[0], outs, outs[0], attrs, 2)


@cuda_kernel("avg_pool", layouts=True)
def avg_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """The mean of each window."""
    if not _have_same_layout(*ins, *outs):
        return None
    return _pool_launch("avg_pool", ins[0], outs[0], ins[0], outs, outs[0], attrs, 1)


@cuda_kernel("avg_pool_grad", layouts=True)
def avg_pool_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """The adjoint of `avg_pool`."""
    if not _have_same_layout(*ins, *outs):
        return None
    return _pool_launch("avg_pool_grad", ins[0], ins[0], outs[0], outs, outs[0], attrs, 1)
