"""One time step of a recurrent layer with the product of its state, in one kernel: for small batches, where launches
and not the products take the time. A candidate (see `candidates`): a GPU decides whether it is faster."""

from __future__ import annotations

from functools import lru_cache

from prototorch.cuda.kernels.launch import c_type, complete_source
from prototorch.cuda.kernels.recurrent_cells import CELLS, boundary_source, load_lines, trace_step

__all__ = ["MAX_ELEMENTS", "SPLIT", "TILE", "count_tiles", "fused_cell_sources"]

TILE = 8  #: samples, and units, of a block
SPLIT = 4  #: threads that share the products of an element of the state
PART, PART_BACK = 256, 512  #: elements of a sum whose factors lie in shared memory, forward and back; of float64 fewer
MAX_ELEMENTS = 1 << 16  #: of a state; tensor cores are faster for larger ones

_PRODUCT = """
// partial [SPLIT, TILE * TILE, OUT]: sums of in [samples, DEPTH] times weights, by threads that take every SPLIT-th
// element of a part of PART; weights are read by WEIGHT(k, j, g), in by INPUT(b, k)
#define PRODUCT(DEPTH, PART, OUT) \\
    for (index k0 = 0; k0 < (DEPTH); k0 += PART) { \\
        const u32 depth = (DEPTH) - k0 < PART ? (DEPTH) - k0 : PART; \\
        __syncthreads(); \\
        for (u32 i = threadIdx.x; i < depth * TILE * OUT; i += blockDim.x) { LOAD_WEIGHT } \\
        for (u32 i = threadIdx.x; i < depth * TILE; i += blockDim.x) { \\
            const u32 r = i / depth, k = i % depth; \\
            inputs[r][k] = b0 + r < samples ? get(INPUT(b0 + r, k0 + k)) : (A)0; \\
        } \\
        __syncthreads(); \\
        for (u32 at = threadIdx.x; at < SPLIT * TILE * TILE; at += blockDim.x) { \\
            const u32 part = at / (TILE * TILE), row = at / TILE % TILE, column = at % TILE; \\
            A sum[OUT]; \\
            for (u32 g = 0; g < OUT; g++) sum[g] = k0 ? partial[at][g] : (A)0; \\
            for (u32 k = part; k < depth; k += SPLIT) \\
                for (u32 g = 0; g < OUT; g++) sum[g] += inputs[row][k] * WEIGHT_AT(column, k, g); \\
            for (u32 g = 0; g < OUT; g++) partial[at][g] = sum[g]; \\
        } \\
    } \\
    __syncthreads();
FN A sum_parts(const A* partial, u32 e, u32 g, u32 out) {
    A sum = 0;
    for (u32 part = 0; part < SPLIT; part++) sum += partial[(part * TILE * TILE + e) * out + g];
    return sum;
}
"""


def count_tiles(samples: int, units: int) -> int:
    """The blocks of a step: a tile of samples and units each."""
    return -(-samples // TILE) * -(-units // TILE)


@lru_cache(maxsize=256)
def fused_cell_sources(
    name: str, units: int, steps: int, dtype: str, masked: bool, activation: str, gate: str, largest: int = 0
) -> tuple[str, str] | None:
    """The texts with the kernels of a walk forward (``step``) and back (``back``, ``shift_states``, ``begin``,
    ``finish``); None where an activation is not one of single elements. ``largest``: see `kernel_source`."""
    forward = trace_step(name, activation, gate, masked, dtype, False)
    backward = trace_step(name, activation, gate, masked, dtype, True)
    if forward is None or backward is None:
        return None
    (lines, results), (back_lines, back_results) = forward, backward
    count, states, has_bias = CELLS[name]
    kind, wide = ("double", 2) if dtype == "float64" else ("float", 1)
    each, join_lines = range(states), "\n            ".join
    extra = (", const X* bias" if has_bias else "") + (", const bool* mask" if masked else "")
    loads = load_lines(kind, name, masked)
    old = [f"const {kind} s{j} = get(place ? all{j}[(b * STEPS + place - 1) * UNITS + u] : first{j}[e]);" for j in each]
    place = f"""const index b = b0 + i / TILE, u = u0 + i % TILE, e = b * UNITS + u, pat = b * {count} * UNITS + u;
            const index xat = (b * STEPS + t) * {count} * UNITS + u;
            if (b >= samples || u >= UNITS) continue;"""
    macros = f"""#define UNITS {units}
#define STEPS {steps}
#define X {c_type(dtype)}
#define TILE {TILE}
#define SPLIT {SPLIT}
#define GATES {count}
"""
    head = "typedef typename arithmetic<X>::type A;\n"
    tiles = """for (index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const index across = (UNITS + TILE - 1) / TILE, b0 = tile / across * TILE, u0 = tile % across * TILE;"""
    products = [f"const {kind} p{k} = sum_parts(&partial[0][0], i, {k}, GATES)" for k in range(count)]
    bias = [f" + get(bias[{k} * UNITS + u]);" if has_bias else ";" for k in range(count)]
    inputs = [line for line in loads if not line.startswith(f"const {kind} p")]
    stores = [f"put(all{j}[(b * STEPS + place) * UNITS + u], {r});" for j, r in enumerate(results)]
    stores += [f"if (place == STEPS - 1) put(last{j}[e], {r});" for j, r in enumerate(results)]
    part = min(units, PART // wide // wide)
    one = f"""{macros}#define INPUT(b, k) \\
    (place ? all0[((b) * STEPS + place - 1) * UNITS + (k)] : first0[(b) * UNITS + (k)])
#define LOAD_WEIGHT const u32 k = i / (TILE * GATES), g = i / TILE % GATES, j = i % TILE; \\
    weights[k][j][g] = u0 + j < UNITS ? get(u_weights[((k0 + k) * GATES + g) * UNITS + u0 + j]) : (A)0;
#define WEIGHT_AT(j, k, g) weights[k][j][g]
{head}{_PRODUCT}
KERNEL step(index tiles, index samples, index t, index place, const X* x, const X* u_weights{extra},
            {", ".join(f"const X* first{j}" for j in each)}, {", ".join(f"X* all{j}, X* last{j}" for j in each)}) {{
    alignas(16) __shared__ A weights[{part}][TILE][GATES];
    __shared__ A inputs[TILE][{part} + 1], partial[SPLIT * TILE * TILE][GATES];
    {tiles}
        PRODUCT(UNITS, {part}, GATES)
        for (u32 i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {{
            {place}
            {join_lines([*inputs, *(a + b for a, b in zip(products, bias, strict=True)), *old, *lines, *stores])}
        }}
    }}
}}
"""
    seeds = [
        f"const {kind} d0 = get(grad[(b * STEPS + place) * UNITS + u]) + dnow0[e] + "
        "(carried ? sum_parts(&partial[0][0], i, 0, 1) : (A)0);"
    ]
    seeds += [f"const {kind} d{j} = dnow{j}[e];" for j in range(1, states)]
    stores = [f"put(dx[xat + {k} * UNITS], {back_results[k]});" for k in range(count)]
    stores += [f"put(dp[pat + {k} * UNITS], {back_results[count + k]});" for k in range(count)]
    stores += [f"dnow{j}[e] = {back_results[2 * count + j]};" for j in each]
    part = min(count * units, PART_BACK // wide)
    two = f"""{macros}#define INPUT(b, k) next[(b) * GATES * UNITS + (k)]
#define LOAD_WEIGHT const u32 j = i / depth, k = i % depth; \\
    weights[j][k] = u0 + j < UNITS ? get(u_weights[(u0 + j) * GATES * UNITS + k0 + k]) : (A)0;
#define WEIGHT_AT(j, k, g) weights[j][k]
{head}{_PRODUCT}
KERNEL back(index tiles, index samples, index t, index place, u32 carried, const X* x, const X* p{extra},
            {", ".join(f"const X* first{j}, const X* all{j}, {kind}* dnow{j}" for j in each)},
            const X* grad, const X* next, const X* u_weights, X* dx, X* dp) {{
    __shared__ A weights[TILE][{part} + 4], inputs[TILE][{part} + 4], partial[SPLIT * TILE * TILE][1];
    {tiles}
        if (carried) {{ PRODUCT(GATES * UNITS, {part}, 1) }}
        for (u32 i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {{
            {place}
            {join_lines([*loads, *old, *seeds, *back_lines, *stores])}
        }}
    }}
}}
{boundary_source(kind)}"""
    return complete_source(one, largest), complete_source(two, largest)
