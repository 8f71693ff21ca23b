"""Pooling: each output element is gathered by one thread, so the bits do not depend on the order of threads."""

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

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _prepared(name: str, x: Spec, small: Spec, large: Spec, outs: tuple[Spec, ...], count: Spec,
              attrs: dict[str, Any], ins: int) -> Launches | None:  # fmt: skip
    """x: whose element type and layout count; small: after the pooling; large: before it; count: what threads make."""
    kernel = attrs["kernel"]
    rank = len(kernel)
    if x.dtype not in _FLOATS or not 1 <= rank <= 3:
        return None
    lead = 3 - rank
    last = x.layout is not None
    packed = pack_of(x, x.shape[1]) if last else 1
    names: dict[str, str | int] = {"X": c_type(x), "C": x.shape[1], "PACK": packed, "CHANNELS_LAST": int(last)}
    names["INCLUDE_PAD"] = int(attrs.get("include_pad", False))
    for k, axis in enumerate("DHW"):
        i = k - lead
        inside = i >= 0
        names[f"I{axis}"] = large.shape[2 + i] if inside else 1
        names[f"O{axis}"] = small.shape[2 + i] if inside else 1
        names[f"K{axis}"] = kernel[i] if inside else 1
        names[f"S{axis}"] = attrs["strides"][i] if inside else 1
        names[f"P{axis}"], names[f"E{axis}"] = attrs["pads"][i] if inside else (0, 0)
    largest = max(small.size, large.size)
    n = count.size // packed
    arrays = (*(In(i) for i in range(ins)), *(Out(i) for i in range(len(outs))))
    return Launches(launch(source("pool", largest, **names), name, n, index(n, largest), *arrays))


def _alike(*specs: Spec) -> bool:
    return len({s.layout for s in specs}) == 1


@cuda_kernel("max_pool", layouts=True)
def max_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """The largest of each window and its number."""
    if not _alike(*ins, *outs):
        return None
    return _prepared("max_pool", ins[0], outs[0], ins[0], outs, outs[0], attrs, 1)


@cuda_kernel("max_unpool", layouts=True)
def max_unpool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """The adjoint of `max_pool`."""
    if not _alike(*ins, *outs):
        return None
    return _prepared("max_unpool", ins[0], ins[0], outs[0], outs, outs[0], attrs, 2)


@cuda_kernel("pick_pooled", layouts=True)
def pick_pooled(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """Of each window the element with the given number."""
    if not _alike(*ins, *outs):
        return None
    return _prepared("pick_pooled", ins[0], outs[0], ins[0], outs, outs[0], attrs, 2)


@cuda_kernel("avg_pool", layouts=True)
def avg_pool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """The mean of each window."""
    if not _alike(*ins, *outs):
        return None
    return _prepared("avg_pool", ins[0], outs[0], ins[0], outs, outs[0], attrs, 1)


@cuda_kernel("avg_unpool", layouts=True)
def avg_unpool(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """The adjoint of `avg_pool`."""
    if not _alike(*ins, *outs):
        return None
    return _prepared("avg_unpool", ins[0], ins[0], outs[0], outs, outs[0], attrs, 1)
