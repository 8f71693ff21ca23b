"""A group of elementwise ops that ends in a sum over all axes but the channels: the gradient of a bias together with
that of an activation. What is summed is not read again."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.cuda.kernels.column_tiles import ColumnTiling
from prototorch.cuda.kernels.elementwise import is_traceable, trace_program
from prototorch.cuda.kernels.launch import (
    BLOCK,
    ITEM_BYTES,
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    align_bytes,
    block_size_for,
    c_type,
    complete_source,
    cuda_kernel,
    index_scalar,
    per_block_launch,
    vector_width,
)
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer
from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = ["elementwise_channel_sum"]

Specs = tuple[Spec, ...]


def _access_mode(spec: Spec, grid: Spec, channel: int) -> str | None:
    """How an input is read: "all" (as the grid), "one" (a scalar) or "channel" (a vector along the channels)."""
    if spec.shape == grid.shape and spec.layout == grid.layout:
        return "all"
    if spec.size == 1:
        return "one"
    acc_dtype = (1,) * (grid.ndim - spec.ndim) + spec.shape
    return "channel" if acc_dtype == tuple(n if i == channel else 1 for i, n in enumerate(grid.shape)) else None


@cuda_kernel("fused", layouts=True)
def elementwise_channel_sum(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Partial sums of chunks of rows, then the sums of those in a fixed order."""
    program, results = attrs["program"], attrs["outputs"]
    *lines, (last, refs, sum_attrs) = program
    total = ("node", len(lines), 0)
    if last != "sum" or not lines or any(not is_traceable(n) for n, _, _ in lines) or total not in results:
        return None
    grid = max((*ins, *outs), key=lambda s: s.size)
    channel = 1 if grid.layout else grid.ndim - 1
    reduced_axes = normalize_axes(dict(sum_attrs).get("axis"), grid.ndim)
    if grid.ndim < 2 or refs[0][0] != "node" or reduced_axes != tuple(a for a in range(grid.ndim) if a != channel):
        return None
    sum_output = results.index(total)
    others = [k for k in range(len(outs)) if k != sum_output]
    modes = [mode for s in ins if (mode := _access_mode(s, grid, channel)) is not None]
    channels = grid.shape[channel]
    same_shape = all((outs[k].shape, outs[k].layout) == (grid.shape, grid.layout) for k in others)
    if len(modes) < len(ins) or not same_shape or not grid.is_float or outs[sum_output].size != channels:
        return None
    traced = trace_program(tuple(lines), (*(results[k] for k in others), refs[0]), tuple(s.dtype for s in ins))
    if traced is None:
        return None
    acc_dtype = "float64" if grid.dtype == "float64" else "float32"
    full = [s for s, m in zip(ins, modes, strict=True) if m == "all"]
    pack = min(vector_width(s, channels) for s in (*full, *(outs[k] for k in others)))
    rows = grid.size // channels
    tiles = ColumnTiling.of(rows, channels, pack)
    chunks = tiles.chunks
    text = complete_source(
        _channel_sum_source(traced, modes, ins, [outs[k] for k in others], outs[sum_output], acc_dtype),
        grid.size,
        {"C": channels, "PACK": pack, "TILE_VECTORS": tiles.vectors},
    )
    counts = tuple(index_scalar(v, grid.size) for v in (rows, chunks, tiles.chunk))
    arrays = (*(InputArg(i) for i in range(len(ins))), *(OutputArg(k) for k in others))
    return LaunchSequence(
        per_block_launch(text, "sweep_sum", tiles.blocks, *counts, *arrays, WorkspaceArg(), block=BLOCK),
        per_block_launch(
            text, "sums_end", channels, counts[1], WorkspaceArg(), OutputArg(sum_output), block=block_size_for(chunks)
        ),
        workspace_bytes=align_bytes(prod((chunks, channels)) * ITEM_BYTES[acc_dtype]),
    )


def _channel_sum_source(
    traced: tuple[tuple[str, ...], tuple[str, ...]],
    modes: list[str],
    ins: Specs,
    others: list[Spec],
    end: Spec,
    acc_dtype: str,
) -> str:
    lines, (*names, summand) = traced
    kinds = ScalarTracer()
    args = [f"const {c_type(s)}* in{i}" for i, s in enumerate(ins)]
    args += [f"{c_type(s)}* out{i}" for i, s in enumerate(others)]
    once, rooms, read, load = [], [], [], []
    for i, (mode, spec) in enumerate(zip(modes, ins, strict=True)):
        kind, t = kinds.compute_c_type(spec.dtype), c_type(spec)
        if mode == "one":
            once.append(f"const {kind} a{i} = get(in{i}[0]);")
        elif mode == "channel":
            load.append(f"const {kind} a{i} = get(in{i}[c + j]);")
        else:
            rooms.append(f"pack<{t}, PACK> p{i}")
            read.append(f"p{i}[u] = *(const pack<{t}, PACK>*)(in{i} + at);")
            load.append(f"const {kind} a{i} = get(p{i}[u].v[j]);")
    results = [f"pack<{c_type(s)}, PACK> r{i};" for i, s in enumerate(others)]
    inner = [*load, *(f"const {line}" for line in lines)]
    inner += [*(f"put(r{i}.v[j], {name});" for i, name in enumerate(names)), f"total[j] += {summand};"]
    store = [f"*(pack<{c_type(s)}, PACK>*)(out{i} + at) = r{i};" for i, s in enumerate(others)]
    nested = "\n                        ".join(inner)
    ahead = "ROWS_AHEAD" if len(rooms) == 1 else "ROWS_AHEAD_OF_SEVERAL"
    return f"""
typedef {c_type(acc_dtype)} A;
template <class T, int N> struct alignas(sizeof(T) * N) pack {{ T v[N]; }};
KERNEL sweep_sum(index rows, index chunks, index chunk, {", ".join(args)}, A* part) {{
    __shared__ A exchange[PACK * EXCHANGE];
    {" ".join(once)}
    const column_tile t = column_tile_of_thread();
    for (index i = blockIdx.x; i < chunks * t.tiles; i += gridDim.x) {{
        const index c = (i % t.tiles * t.vectors + t.lane) * PACK, k = i / t.tiles, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A total[PACK];
        for (int j = 0; j < PACK; j++) total[j] = 0;
        if (t.group < t.groups && c < C)
            for (index r = begin + t.group; r < end; r += t.groups * {ahead}) {{
                {" ".join(f"{one}[{ahead}];" for one in rooms)}
                #pragma unroll
                for (int u = 0; u < {ahead}; u++) if (r + u * t.groups < end) {{
                    const index at = (r + u * t.groups) * C + c;
                    {" ".join(read)}
                }}
                #pragma unroll
                for (int u = 0; u < {ahead}; u++) if (r + u * t.groups < end) {{
                    const index at = (r + u * t.groups) * C + c;
                    {" ".join(results)}
                    #pragma unroll
                    for (int j = 0; j < PACK; j++) {{
                        {nested}
                    }}
                    {" ".join(store)}
                }}
            }}
        sum_groups(total, exchange, t);
        if (t.group == 0 && c < C) for (int j = 0; j < PACK; j++) part[k * C + c + j] = total[j];
    }}
}}
KERNEL sums_end(index chunks, const A* part, {c_type(end)}* out) {{
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {{
        A sum = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) sum += part[k * C + c];
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) put(out[c], sum);
    }}
}}
"""


register_fusion_role("cuda", "tail", "sum")
