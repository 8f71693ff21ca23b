"""Elementwise kernels with per-channel parameters: the last step of a batch norm, and of its gradient.

In channels_last a thread processes the same channels in many rows, so that their parameters stay in registers; it reads
several rows before it writes the first. Otherwise a thread processes a few adjacent elements of one channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.cuda.kernels.launch import KernelLaunch, c_type, grid_stride_launch, index_scalar
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer
from prototorch.spec import Spec

__all__ = ["AHEAD", "channelwise_launch", "channelwise_source"]

MAX_THREADS = 1 << 17  # threads over the rows: as many as a large GPU runs at once
AHEAD = 4  # rows that a thread reads before it writes


def channelwise_source(
    name: str,
    parameters: Sequence[str],
    channel_values: Sequence[tuple[str, str]],
    ins: Sequence[tuple[str, Spec]],
    outs: Sequence[Spec],
    lines: Sequence[str],
    results: Sequence[str],
    last: bool,
) -> str:
    """The source of a kernel.

    parameters: declarations of further parameters. channel_values: names with their C expression for channel ``c``.
    ins: arrays of one layout, with the names of their elements in ``lines``. results: the C expressions that are
    written to ``outs``. last: whether the layout is channels_last.
    """
    kinds = ScalarTracer()
    args = [*parameters, *(f"const {c_type(s)}* in{i}" for i, (_, s) in enumerate(ins))]
    args += [f"{c_type(s)}* out{i}" for i, s in enumerate(outs)]
    packs = [f"pack<{c_type(s)}, PACK>" for _, s in ins]
    output_vectors = [f"pack<{c_type(s)}, PACK>" for s in outs]
    load = [
        f"const {kinds.compute_c_type(kinds.compute_dtype(s.dtype))} {n} = get(p{i}[u].v[j]);"
        for i, (n, s) in enumerate(ins)
    ]
    inner = [*load, *lines, *(f"put(r{i}.v[j], {one});" for i, one in enumerate(results))]
    head = [f"{p} p{i}[AHEAD];" for i, p in enumerate(packs)]
    read = [f"p{i}[u] = *(const {p}*)(in{i} + at);" for i, p in enumerate(packs)]
    room = [f"{p} r{i};" for i, p in enumerate(output_vectors)]
    store = [f"*({p}*)(out{i} + at) = r{i};" for i, p in enumerate(output_vectors)]
    if last:
        count, place = "rows", "index at = (r + u * step) * C + c;"
        first = "const index c = i % (C / PACK) * PACK;"
        loop = "for (index r = i / (C / PACK); r < rows; r += step * AHEAD)"
        within, each, which = "r + u * step < rows", "i, step * (C / PACK)", "j"
    else:
        count, place = "n", "index at = (i + u) * PACK;"
        first = "const index c = i * PACK / INNER % C;"
        loop, within, each, which = "", "true", "i, n", "0"
    numbers = [f"A {n}_of[{'PACK' if last else '1'}];" for n, _ in channel_values]
    fill = [f"{n}_of[j] = {text.replace('[c]', '[c + j]')};" for n, text in channel_values]
    use = [f"const A {n} = {n}_of[{which}];" for n, _ in channel_values]
    return f"""
#undef AHEAD
#define AHEAD {AHEAD if last else 1}
KERNEL {name}(index {count}, index step, {", ".join(args)}) {{
    EACH({each}) {{
        {first}
        {" ".join(numbers)}
        for (int j = 0; j < {"PACK" if last else "1"}; j++) {{ {" ".join(fill)} }}
        {loop} {{
            {" ".join(head)}
            #pragma unroll
            for (int u = 0; u < AHEAD; u++) if ({within}) {{
                const {place}
                {" ".join(read)}
            }}
            #pragma unroll
            for (int u = 0; u < AHEAD; u++) if ({within}) {{
                const {place}
                {" ".join(room)}
                #pragma unroll
                for (int j = 0; j < PACK; j++) {{
                    {" ".join(use)}
                    {" ".join(inner)}
                }}
                {" ".join(store)}
            }}
        }}
    }}
}}
"""


def channelwise_launch(
    text: str, name: str, size: int, channels: int, pack: int, last: bool, *args: Any
) -> KernelLaunch:
    """The launch over an array of ``size`` elements; args: those after the counts."""
    if not last:
        n = size // pack
        return grid_stride_launch(text, name, n, index_scalar(n, size), index_scalar(0, size), *args)
    rows, lanes = size // channels, channels // pack
    step = max(1, min(rows, MAX_THREADS // lanes))
    return grid_stride_launch(text, name, step * lanes, index_scalar(rows, size), index_scalar(step, size), *args)
