"""All time steps of a recurrent layer in one kernel: a block keeps the states of a few samples and goes through the
steps, so that no block waits for another. For small layers, whose weights stay in the cache of a multiprocessor. A
candidate (see `candidates`): a GPU decides whether it is faster."""

from __future__ import annotations

from functools import lru_cache

from prototorch.cuda.kernels.launch import BLOCK, c_type, complete_source
from prototorch.cuda.kernels.recurrent_cells import CELLS, boundary_source, load_lines, trace_step

__all__ = ["MAX_UNITS", "SAMPLES", "persistent_cell_sources"]

SAMPLES = 2  #: of a block, which read each weight together
MAX_UNITS = 128  #: their weights, 64 KiB a gate in float32, are read from a multiprocessor's cache in each step

_HEAD = """typedef typename arithmetic<X>::type A;
FN A rounded(A v) { X r; put(r, v); return get(r); }
FN A sum_parts(const A* partial, u32 e, u32 g, u32 out) {
    A sum = 0;
    for (u32 part = 0; part < SPLIT; part++) sum += partial[(part * SAMPLES * UNITS + e) * out + g];
    return sum;
}
"""


@lru_cache(maxsize=256)
def persistent_cell_sources(
    name: str, units: int, steps: int, dtype: str, masked: bool, activation: str, gate: str, largest: int = 0
) -> tuple[str, str] | None:
    """The texts with the kernels of all steps forward (``recurrent_forward``) and back (``recurrent_backward``,
    ``transpose_weights``, ``shift_states``); None where an activation is not one of single elements. ``largest``: see
    `kernel_source`."""
    forward = trace_step(name, activation, gate, masked, dtype, False)
    backward = trace_step(name, activation, gate, masked, dtype, True)
    if forward is None or backward is None:
        return None
    (lines, results), (back_lines, back_results) = forward, backward
    count, states, has_bias = CELLS[name]
    kind = "double" if dtype == "float64" else "float"
    each, join_lines = range(states), "\n                ".join
    extra = (", const X* bias" if has_bias else "") + (", const bool* mask" if masked else "")
    loads = load_lines(kind, name, masked)
    macros = f"""#define UNITS {units}
#define STEPS {steps}
#define X {c_type(dtype)}
#define SAMPLES {SAMPLES}
#define SPLIT {max(1, BLOCK // units)}
#define GATES {count}
"""
    groups = "for (index b0 = (index)blockIdx.x * SAMPLES; b0 < samples; b0 += (index)gridDim.x * SAMPLES) {"
    element = """const u32 sample = i / UNITS, u = i % UNITS;
                const index b = b0 + sample, e = b * UNITS + u;
                if (b >= samples) continue;"""
    step = f"""{element}
                const index pat = ((index)place * samples + b) * GATES * UNITS + u;
                const index xat = (b * STEPS + t) * GATES * UNITS + u;"""
    products = [f"const {kind} p{k} = sum_parts(&partial[0][0], i, {k}, GATES)" for k in range(count)]
    bias = [f" + get(bias[{k} * UNITS + u]);" if has_bias else ";" for k in range(count)]
    inputs = [line for line in loads if not line.startswith(f"const {kind} p")]
    old = [f"const {kind} s{j} = state[{j}][sample][u];" for j in each]
    stores = [
        f"put(all{j}[(b * STEPS + place) * UNITS + u], {r}); state[{j}][sample][u] = rounded({r});"
        for j, r in enumerate(results)
    ]
    stores += [f"if (place == STEPS - 1) put(last{j}[e], {r});" for j, r in enumerate(results)]
    one = f"""{macros}{_HEAD}
KERNEL recurrent_forward(index samples, u32 reverse, const X* x, const X* weights{extra},
            {", ".join(f"const X* first{j}" for j in each)}, {", ".join(f"X* all{j}, X* last{j}" for j in each)}) {{
    __shared__ A state[{states}][SAMPLES][UNITS], partial[SPLIT * SAMPLES * UNITS][GATES];
    {groups}
        for (u32 i = threadIdx.x; i < SAMPLES * UNITS; i += blockDim.x) {{
            const u32 sample = i / UNITS, u = i % UNITS;
            const index b = b0 + sample;
            {" ".join(f"state[{j}][sample][u] = b < samples ? get(first{j}[b * UNITS + u]) : (A)0;" for j in each)}
        }}
        __syncthreads();
        for (u32 place = 0; place < STEPS; place++) {{
            const index t = reverse ? STEPS - 1 - place : place;
            for (u32 at = threadIdx.x; at < SPLIT * UNITS; at += blockDim.x) {{
                const u32 part = at / UNITS, u = at % UNITS;
                A sum[SAMPLES][GATES] = {{}};
#pragma unroll 4
                for (u32 k = part; k < UNITS; k += SPLIT)
                    for (u32 g = 0; g < GATES; g++) {{
                        const A w = get(weights[(k * GATES + g) * UNITS + u]);
                        for (u32 s = 0; s < SAMPLES; s++) sum[s][g] += state[0][s][k] * w;
                    }}
                for (u32 s = 0; s < SAMPLES; s++)
                    for (u32 g = 0; g < GATES; g++) partial[(part * SAMPLES + s) * UNITS + u][g] = sum[s][g];
            }}
            __syncthreads();
            for (u32 i = threadIdx.x; i < SAMPLES * UNITS; i += blockDim.x) {{
                {step}
                {join_lines([*inputs, *(a + b for a, b in zip(products, bias, strict=True)), *old, *lines, *stores])}
            }}
            __syncthreads();
        }}
    }}
}}
"""
    old = [
        f"const {kind} s{j} = place ? get(all{j}[(b * STEPS + place - 1) * UNITS + u]) : get(first{j}[e]);"
        for j in each
    ]
    through = "sum_parts(&partial[0][0], i, 0, 1)"
    seeds = [
        f"const {kind} d0 = get(grad[(b * STEPS + place) * UNITS + u]) + state[0][sample][u] + "
        f"(place == STEPS - 1 ? (A)0 : {through});"
    ]
    seeds += [f"const {kind} d{j} = state[{j}][sample][u];" for j in range(1, states)]
    stores = [f"put(dx[xat + {k} * UNITS], {back_results[k]});" for k in range(count)]
    stores += [
        f"put(dp[pat + {k} * UNITS], {r}); gates[sample][{k} * UNITS + u] = rounded({r});"
        for k, r in enumerate(back_results[count : 2 * count])
    ]
    stores += [f"state[{j}][sample][u] = {back_results[2 * count + j]};" for j in each]
    ends = [f"put(dfirst{j}[e], state[{j}][sample][u]{f' + {through}' if j == 0 else ''});" for j in each]
    two = f"""{macros}{_HEAD}
// weights [UNITS, GATES * UNITS] to [GATES * UNITS, UNITS]
KERNEL transpose_weights(index n, const X* weights, X* out) {{
    EACH(i, n) out[i] = weights[i % UNITS * (GATES * UNITS) + i / UNITS];
}}
KERNEL recurrent_backward(index samples, u32 reverse, const X* x, const X* p{extra},
            {", ".join(f"const X* first{j}, const X* all{j}, const X* dlast{j}, X* dfirst{j}" for j in each)},
            const X* grad, const X* turned, X* dx, X* dp) {{
    __shared__ A state[{states}][SAMPLES][UNITS], gates[SAMPLES][GATES * UNITS], partial[SPLIT * SAMPLES * UNITS][1];
    {groups}
        for (u32 i = threadIdx.x; i < SAMPLES * UNITS; i += blockDim.x) {{
            const u32 sample = i / UNITS, u = i % UNITS;
            const index b = b0 + sample;
            {" ".join(f"state[{j}][sample][u] = b < samples ? get(dlast{j}[b * UNITS + u]) : (A)0;" for j in each)}
            for (u32 g = 0; g < GATES; g++) gates[sample][g * UNITS + u] = 0;
        }}
        __syncthreads();
        for (u32 rest = STEPS; rest > 0; rest--) {{
            const u32 place = rest - 1;
            const index t = reverse ? STEPS - 1 - place : place;
            for (u32 i = threadIdx.x; i < SAMPLES * UNITS; i += blockDim.x) {{
                {step}
                {join_lines([*loads, *old, *seeds, *back_lines, *stores])}
            }}
            __syncthreads();
            for (u32 at = threadIdx.x; at < SPLIT * UNITS; at += blockDim.x) {{
                const u32 part = at / UNITS, u = at % UNITS;
                A sum[SAMPLES] = {{}};
#pragma unroll 8
                for (u32 k = part; k < GATES * UNITS; k += SPLIT) {{
                    const A w = get(turned[k * UNITS + u]);
                    for (u32 s = 0; s < SAMPLES; s++) sum[s] += gates[s][k] * w;
                }}
                for (u32 s = 0; s < SAMPLES; s++) partial[(part * SAMPLES + s) * UNITS + u][0] = sum[s];
            }}
            __syncthreads();
        }}
        for (u32 i = threadIdx.x; i < SAMPLES * UNITS; i += blockDim.x) {{
            {element}
            {join_lines(ends)}
        }}
        __syncthreads();
    }}
}}
{boundary_source(kind)}"""
    return complete_source(one, largest), complete_source(two, largest)
