"""A group of elementwise ops that ends in the gradient of a batch norm: the kernel that computes its operand
computes its sums as well. An operand that other steps read is written and read again; else it is computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.cuda.kernels.batch_norm import INPUT_GRAD_EXPR, BatchNormGeometry
from prototorch.cuda.kernels.channelwise import channelwise_source
from prototorch.cuda.kernels.column_tiles import TARGET_BLOCKS_80_REGISTERS
from prototorch.cuda.kernels.elementwise import is_traceable, trace_program
from prototorch.cuda.kernels.launch import (
    ITEM_BYTES,
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    align_bytes,
    c_type,
    cuda_kernel,
)
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer
from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.spec import Spec

__all__ = ["elementwise_batch_norm_grad"]

Specs = tuple[Spec, ...]


@cuda_kernel("fused", layouts=True)
def elementwise_batch_norm_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Channels last alone: there a thread keeps to its channels in all sweeps."""
    *lines, (last, refs, norm_attrs) = attrs["program"]
    results, end = attrs["outputs"], len(lines)
    ends = tuple(("node", end, k) for k in range(3))
    if last != "batch_norm_grad" or not lines or any(not is_traceable(n) for n, _, _ in lines):
        return None
    if refs[0][0] != "node" or any(r[0] != "in" for r in refs[1:]) or any(r not in results for r in ends):
        return None
    x, gamma, mean, var = (ins[r[1]] for r in refs[1:])
    at = [results.index(r) for r in ends]
    others = [k for k in range(len(outs)) if k not in at]
    numbers = sorted({refs[1][1], *(r[1] for _, rs, _ in lines for r in rs if r[0] == "in")})
    same_format = [*(ins[i] for i in numbers), outs[at[0]], *(outs[k] for k in others)]
    if x.layout is None or any((s.shape, s.layout, s.dtype) != (x.shape, x.layout, x.dtype) for s in same_format):
        return None
    if mean.dtype != var.dtype or any(outs[k].dtype != gamma.dtype for k in at[1:]):
        return None
    gradient_outputs = [k for k in others if results[k] == refs[0]]
    if any((k, refs[1][1]) in attrs.get("inplace", ()) for k in others):
        return None  # x is read again after that
    traced = trace_program(tuple(lines), (*(results[k] for k in others), refs[0]), tuple(s.dtype for s in ins))
    blocks = TARGET_BLOCKS_80_REGISTERS
    c = BatchNormGeometry(x, gamma, mean, dict(norm_attrs), others=tuple(same_format), target_blocks=blocks)
    if traced is None or not c.fits or not c.channels_last:
        return None
    statements, (*names, g) = [f"const {one}" for one in traced[0]], traced[1]
    read = [(f"a{i}", ins[i]) for i in numbers]
    seen = f"a{refs[1][1]}"
    c.source += _gradient_sums_source(read, [outs[k] for k in others], statements, names, g, seen)
    vectors_in_workspace = WorkspaceArg(c.partial_bytes)
    if gradient_outputs:
        reread, arrays, statements_again = (
            [("g", x), ("seen", x)],
            [OutputArg(gradient_outputs[0]), InputArg(refs[1][1])],
            [],
        )
        result = INPUT_GRAD_EXPR.format("g")
    else:
        reread, arrays, statements_again = (
            read,
            [InputArg(i) for i in numbers],
            [*statements, f"const A seen = {seen};"],
        )
        result = INPUT_GRAD_EXPR.format(g)
    c.source += channelwise_source(
        "grads_apply", ["const A* own"], c.gradient_vectors, reread, [outs[at[0]]], statements_again, [result], True
    )
    first = (*(InputArg(i) for i in numbers), *(OutputArg(k) for k in others), WorkspaceArg())
    vectors = [InputArg(r[1]) for r in refs[2:]]
    ends_at, reciprocal_rows = [OutputArg(k) for k in at], c.acc_type(1 / c.rows)
    return LaunchSequence(
        c.partial_launch("grads_then", vectors[1], *first),
        c.final_launch(
            "grads_end",
            *c.index_args(c.chunks),
            WorkspaceArg(),
            *vectors,
            *ends_at[1:],
            vectors_in_workspace,
            c.eps,
            reciprocal_rows,
        ),
        c.elements_launch("grads_apply", vectors_in_workspace, *arrays, ends_at[0]),
        workspace_bytes=c.partial_bytes + align_bytes(4 * c.channels * ITEM_BYTES[c.acc_dtype]),
    )


def _gradient_sums_source(
    ins: Sequence[tuple[str, Spec]], outs: Sequence[Spec], lines: Sequence[str], names: Sequence[str], g: str, seen: str
) -> str:
    """The kernel ``grads_then_last``: partial sums of g and of g times x without its mean."""
    kinds = ScalarTracer()
    args = [f"const {c_type(s)}* in{i}" for i, (_, s) in enumerate(ins)]
    args += [f"{c_type(s)}* out{i}" for i, s in enumerate(outs)]
    room = " ".join(f"XS p{i}[ROWS_AHEAD_OF_SEVERAL];" for i in range(len(ins)))
    read = " ".join(f"p{i}[u] = *(const XS*)(in{i} + at);" for i in range(len(ins)))
    load = [
        f"const {kinds.compute_c_type(kinds.compute_dtype(s.dtype))} {n} = get(p{i}[u].v[j]);"
        for i, (n, s) in enumerate(ins)
    ]
    inner = " ".join([*load, *lines, *(f"put(r{i}.v[j], {n});" for i, n in enumerate(names))])
    registers = " ".join(f"XS r{i};" for i in range(len(outs)))
    store = " ".join(f"*(XS*)(out{i} + at) = r{i};" for i in range(len(outs)))
    return f"""
KERNEL grads_then_last(index rows, index chunks, index chunk, const V* mean, {", ".join(args)}, A* part) {{
    __shared__ A exchange[2 * PACK * EXCHANGE];
    const column_tile t = column_tile_of_thread();
    for (index i = blockIdx.x; i < chunks * t.tiles; i += gridDim.x) {{
        const index c = (i % t.tiles * t.vectors + t.lane) * PACK, k = i / t.tiles, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sums[2 * PACK];
        for (int j = 0; j < 2 * PACK; j++) sums[j] = 0;
        if (t.group < t.groups && c < C) {{
            A middle[PACK];
            for (int j = 0; j < PACK; j++) middle[j] = get(mean[c + j]);
            for (index r = begin + t.group; r < end; r += t.groups * ROWS_AHEAD_OF_SEVERAL) {{
                {room}
                #pragma unroll
                for (int u = 0; u < ROWS_AHEAD_OF_SEVERAL; u++) if (r + u * t.groups < end) {{
                    const index at = (r + u * t.groups) * C + c;
                    {read}
                }}
                #pragma unroll
                for (int u = 0; u < ROWS_AHEAD_OF_SEVERAL; u++) if (r + u * t.groups < end) {{
                    const index at = (r + u * t.groups) * C + c;
                    {registers}
                    #pragma unroll
                    for (int j = 0; j < PACK; j++) {{
                        {inner}
                        sums[j] += {g};
                        sums[PACK + j] += {g} * ({seen} - middle[j]);
                    }}
                    {store}
                }}
            }}
        }}
        sum_groups(sums, exchange, t);
        if (t.group == 0 && c < C)
            for (int j = 0; j < PACK; j++) {{
                part[k * C + c + j] = sums[j];
                part[(chunks + k) * C + c + j] = sums[PACK + j];
            }}
    }}
}}
"""


register_fusion_role("cuda", "tail", "batch_norm_grad")
