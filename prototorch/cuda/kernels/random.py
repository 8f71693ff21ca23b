"""Random numbers and dropout: the same bits as on the CPU, generated from a counter where they are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.kernels.elementwise import merge_axes
from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    kernel_source,
)
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


@cuda_kernel("dropout", layouts=True)
def dropout(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """x * scale where 16 random bits are at least the rate, else 0."""
    x, rate = ins[0], attrs["rate"]
    if not x.is_float or outs[0] != x:
        return None
    noise = attrs.get("noise_shape")
    noise_spec = Spec(x.shape if noise is None else tuple(noise))
    dims, ((*strides,),) = merge_axes(x, [noise_spec])
    acc_type = np.float64 if x.dtype == "float64" else np.float32
    common = (
        InputArg(0),
        InputArg(1),
        OutputArg(0),
        np.uint64(attrs["site"]),
        np.uint32(round(rate * 65536)),
        acc_type(1 / (1 - rate)),
    )
    macros: dict[str, str | int] = {"DROPOUT": 1, "X": c_type(x)}
    if noise_spec.size == x.size and len(dims) <= 1:
        blocks = -(-x.size // 16)
        source = kernel_source("random", x.size, **macros, PLACE="at = i;")
        return LaunchSequence(
            grid_stride_launch(source, "dropout", blocks, np.uint64(blocks), np.uint64(x.size), *common)
        )
    lines = [f"at += i % {n}ull * {s}ull; i /= {n}ull;" for n, s in zip(reversed(dims), reversed(strides), strict=True)]
    source = kernel_source("random", x.size, **macros, PLACE=" ".join(lines))
    return LaunchSequence(grid_stride_launch(source, "dropout_placed", x.size, np.uint64(x.size), *common))


@cuda_kernel("random_bits")
def random_bits(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Words of 32 bits."""
    n = outs[0].size
    source = kernel_source("random", n, X="float", PLAIN=1)
    return LaunchSequence(
        grid_stride_launch(
            source, "random_bits", -(-n // 8), np.uint64(n), InputArg(0), OutputArg(0), np.uint64(attrs["site"])
        )
    )


@cuda_kernel("random_uniform")
def random_uniform(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """24 bits as a number in [low, high)."""
    y, low, high = outs[0], attrs.get("low", 0.0), attrs.get("high", 1.0)
    if y.dtype not in ("float32", "float64"):
        return None
    acc_type = np.float64 if y.dtype == "float64" else np.float32
    below = np.nextafter(np.asarray(high, y.dtype), np.asarray(low, y.dtype))
    source = kernel_source("random", y.size, X=c_type(y), PLAIN=int((low, high) == (0.0, 1.0)))
    numbers = (np.uint64(attrs["site"]), acc_type(low), acc_type(high - low), acc_type(below))
    return LaunchSequence(
        grid_stride_launch(
            source, "random_uniform", -(-y.size // 8), np.uint64(y.size), InputArg(0), OutputArg(0), *numbers
        )
    )
