"""The package's own convolution and its gradients: where cuDNN is missing, refuses a graph, or is to be compared with.

Tiles of implicit matrix products in shared memory, computed in float32 (float64 for that dtype) without tensor cores,
in one to three spatial dimensions, with groups, dilation and any padding, in both layouts.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    c_type,
    complete_source,
    contiguous_strides,
    grid_stride_launch,
    index_scalar,
    kernel_source,
    per_block_launch,
)
from prototorch.spec import Spec

__all__ = ["tiled_conv", "tiled_conv_input_grad", "tiled_conv_weight_grad"]

Specs = tuple[Spec, ...]
FLOATS = ("float32", "float64", "float16", "bfloat16")
#: a block has SIDE x SIDE threads, each of which computes at most MAX_WORK x MAX_WORK elements; DEPTH: of the tiles in
#: shared memory
SIDE, MAX_WORK, DEPTH = 16, 8, 8
BLOCKS_WANTED = 528  # of a weight gradient, whose pixels are split into as many chunks: four for each of 132 SMs
MIN_CHUNK = 512  # pixels of a chunk at least
FORWARD, INPUT_GRAD, WEIGHT_GRAD = range(3)
#: adds the chunks of a weight gradient, in their order
_SUM_SPLITS = """
typedef typename arithmetic<X>::type A;
KERNEL sum_splits(index elements, index splits, const A* partial_sums, Y* dw) {
    EACH(i, elements) {
        A total = 0;
        for (index s = 0; s < splits; s++) total += partial_sums[s * elements + i];
        put(dw[i], total);
    }
}
"""


def tiled_conv(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """x [N, C, *spatial], w [F, C / groups, *kernel] to y; None for other dtypes and numbers of dimensions."""
    return _launches(FORWARD, ins[0], ins[1], outs[0], ins, outs[0], attrs)


def tiled_conv_input_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """g and w to the gradient of x."""
    return _launches(INPUT_GRAD, outs[0], ins[1], ins[0], ins, outs[0], attrs)


def tiled_conv_weight_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """x and g to the gradient of w, which may have another dtype."""
    return _launches(WEIGHT_GRAD, ins[0], outs[0], ins[1], ins, outs[0], attrs)


def _launches(
    direction: int, x: Spec, w: Spec, y: Spec, ins: Specs, out: Spec, attrs: dict[str, Any]
) -> LaunchSequence | None:
    rank, groups = len(attrs["strides"]), attrs.get("groups", 1)
    if len({s.dtype for s in ins}) > 1 or {ins[0].dtype, out.dtype} - set(FLOATS) or not 1 <= rank <= 3:
        return None
    if not all(s.size for s in (*ins, out)) or w.layout is not None:
        return None
    channels, filters, taps = w.shape[1], w.shape[0] // groups, prod(w.shape[2:])
    pixels = x.shape[0] * prod((x if direction == INPUT_GRAD else y).shape[2:])
    rows, columns = (
        (filters, channels * taps)
        if direction == WEIGHT_GRAD
        else (pixels, channels if direction == INPUT_GRAD else filters)
    )
    depth = {FORWARD: channels * taps, INPUT_GRAD: filters * taps, WEIGHT_GRAD: pixels}[direction]
    work_m, work_n = _work(rows), _work(columns)
    row_tiles, column_tiles = -(-rows // (SIDE * work_m)), -(-columns // (SIDE * work_n))
    tiles = row_tiles * column_tiles * groups
    splits = 1
    if direction == WEIGHT_GRAD:
        splits = max(1, min(BLOCKS_WANTED // tiles, depth // MIN_CHUNK))
    chunk = -(-depth // splits)
    splits = -(-depth // chunk)
    sum_type = "float64" if ins[0].dtype == "float64" else "float32"
    largest = max(x.size, y.size, w.size * splits, tiles * splits)
    source = kernel_source(
        "conv",
        largest,
        X=c_type(ins[0]),
        Y=c_type(out if splits == 1 else sum_type),
        DIRECTION=direction,
        SIDE=SIDE,
        WORK_M=work_m,
        WORK_N=work_n,
        DEPTH=DEPTH,
        BATCH=x.shape[0],
        GROUPS=groups,
        C=channels,
        F=filters,
        LAST=int(ins[0].layout is not None),
        **_geometry(x, w, y, attrs),
    )
    counts = (index_scalar(n, largest) for n in (tiles * splits, row_tiles, column_tiles, chunk))
    target = OutputArg(0) if splits == 1 else WorkspaceArg()
    launches = [
        per_block_launch(source, "conv", tiles * splits, *counts, InputArg(0), InputArg(1), target, block=SIDE * SIDE)
    ]
    workspace_bytes = 0
    if splits > 1:
        workspace_bytes = splits * w.size * (8 if sum_type == "float64" else 4)
        ending = complete_source(_SUM_SPLITS, largest, {"X": c_type(ins[0]), "Y": c_type(out)})
        numbers = (index_scalar(w.size, largest), index_scalar(splits, largest))
        launches.append(grid_stride_launch(ending, "sum_splits", w.size, *numbers, WorkspaceArg(), OutputArg(0)))
    sequence = LaunchSequence(*launches, workspace_bytes=workspace_bytes)
    sequence.layouts = tuple(s.layout for s in ins)
    return sequence


def _work(size: int) -> int:
    """The elements of a thread along an axis of this size: as few as cover it, at most MAX_WORK."""
    work = 1
    while work < MAX_WORK and work * SIDE < size:
        work *= 2
    return work


def _geometry(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any]) -> dict[str, int]:
    """Sizes and strides of three spatial dimensions, by the macros' names."""
    missing = 3 - len(attrs["strides"])
    axes = {
        "I": (*(1,) * missing, *x.shape[2:]),
        "O": (*(1,) * missing, *y.shape[2:]),
        "K": (*(1,) * missing, *w.shape[2:]),
        "S": (*(1,) * missing, *attrs["strides"]),
        "P": (*(0,) * missing, *(before for before, _ in attrs["pads"])),
        "D": (*(1,) * missing, *attrs["dilation"]),
    }
    macros = {f"{name}{i}": value for name, values in axes.items() for i, value in enumerate(values)}
    for name, spec in (("X", x), ("Y", y)):
        batch, channel, *steps = contiguous_strides(spec)
        macros.update({f"{name}N": batch, f"{name}C": channel})
        macros.update({f"{name}{i}": step for i, step in enumerate((*(0,) * missing, *steps))})
    return macros
