"""A group of elementwise ops that ends in the gradient of a batch norm: the sweep that makes what it reads makes its
sums as well. Where that is wanted elsewhere it is written and read again, else it is made twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.backends.core import fusable
from prototorch.backends.cuda.kernels.fused import TRACED, formula
from prototorch.backends.cuda.kernels.launch import ITEM_BYTES, In, Launches, Out, Space, aligned, c_type, cuda_kernel
from prototorch.backends.cuda.kernels.norm import APPLIED, Channels
from prototorch.backends.cuda.kernels.norm_sweep import AHEAD, sweep_text
from prototorch.backends.cuda.kernels.trace import Symbols
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


@cuda_kernel("fused", layouts=True)
def graded(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Channels last alone: there a thread keeps to its channels in all sweeps."""
    *lines, (last, refs, given) = attrs["program"]
    results, end = attrs["outputs"], len(lines)
    ends = tuple(("node", end, k) for k in range(3))
    if last != "batch_norm_grad" or not lines or any(n not in TRACED for n, _, _ in lines):
        return None
    if refs[0][0] != "node" or any(r[0] != "in" for r in refs[1:]) or any(r not in results for r in ends):
        return None
    x, gamma, mean, var = (ins[r[1]] for r in refs[1:])
    at = [results.index(r) for r in ends]
    others = [k for k in range(len(outs)) if k not in at]
    numbers = sorted({refs[1][1], *(r[1] for _, rs, _ in lines for r in rs if r[0] == "in")})
    alike = [*(ins[i] for i in numbers), outs[at[0]], *(outs[k] for k in others)]
    if x.layout is None or any((s.shape, s.layout, s.dtype) != (x.shape, x.layout, x.dtype) for s in alike):
        return None
    if mean.dtype != var.dtype or any(outs[k].dtype != gamma.dtype for k in at[1:]):
        return None
    own = [k for k in others if results[k] == refs[0]]
    if any((k, refs[1][1]) in attrs.get("inplace", ()) for k in others):
        return None  # x is read again after that
    found = formula(tuple(lines), (*(results[k] for k in others), refs[0]), tuple(s.dtype for s in ins))
    c = Channels(x, gamma, mean, dict(given), beside=tuple(alike))
    if found is None or not c.fits or not c.last:
        return None
    said, (*names, g) = [f"const {one}" for one in found[0]], found[1]
    read = [(f"a{i}", ins[i]) for i in numbers]
    seen = f"a{refs[1][1]}"
    c.text += _sums(read, [outs[k] for k in others], said, names, g, seen)
    made = Space(c.part)
    if own:
        again, arrays, more = [("g", x), ("seen", x)], [Out(own[0]), In(refs[1][1])], []
        result = APPLIED.format("g")
    else:
        again, arrays, more = read, [In(i) for i in numbers], [*said, f"const A seen = {seen};"]
        result = APPLIED.format(g)
    c.text += sweep_text("grads_apply", ["const A* own"], c.applied, again, [outs[at[0]]], more, [result], True)
    first = (*(In(i) for i in numbers), *(Out(k) for k in others), Space())
    vectors = [In(r[1]) for r in refs[2:]]
    ends_at, by = [Out(k) for k in at], c.number(1 / c.rows)
    return Launches(
        c.partial("grads_then", vectors[1], *first),
        c.end("grads_end", *c.count(c.chunks), Space(), *vectors, *ends_at[1:], made, c.eps, by),
        c.each("grads_apply", made, *arrays, ends_at[0]),
        space=c.part + aligned(4 * c.channels * ITEM_BYTES[c.wide]),
    )


def _sums(ins: Sequence[tuple[str, Spec]], outs: Sequence[Spec], lines: Sequence[str], names: Sequence[str], g: str,
          seen: str) -> str:  # fmt: skip
    """The kernel ``grads_then_last``: partial sums of g and of g times x without its mean."""
    kinds = Symbols()
    args = [f"const {c_type(s)}* in{i}" for i, (_, s) in enumerate(ins)]
    args += [f"{c_type(s)}* out{i}" for i, s in enumerate(outs)]
    room = " ".join(f"XS p{i}[{AHEAD}];" for i in range(len(ins)))
    read = " ".join(f"p{i}[u] = *(const XS*)(in{i} + (r + u) * C + c);" for i in range(len(ins)))
    load = [f"const {kinds.kind(kinds.computed(s.dtype))} {n} = get(p{i}[u].v[j]);" for i, (n, s) in enumerate(ins)]
    inner = " ".join([*load, *lines, *(f"put(r{i}.v[j], {n});" for i, n in enumerate(names))])
    made = " ".join(f"XS r{i};" for i in range(len(outs)))
    store = " ".join(f"*(XS*)(out{i} + (r + u) * C + c) = r{i};" for i in range(len(outs)))
    return f"""
KERNEL grads_then_last(index rows, index chunks, index chunk, const V* mean, {", ".join(args)}, A* part) {{
    EACH(i, chunks * (C / PACK)) {{
        const index c = i % (C / PACK) * PACK, k = i / (C / PACK), begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sum[PACK], both[PACK], middle[PACK];
        for (int j = 0; j < PACK; j++) {{ sum[j] = 0; both[j] = 0; middle[j] = get(mean[c + j]); }}
        for (index r = begin; r < end; r += {AHEAD}) {{
            {room}
            #pragma unroll
            for (int u = 0; u < {AHEAD}; u++) if (r + u < end) {{ {read} }}
            #pragma unroll
            for (int u = 0; u < {AHEAD}; u++) if (r + u < end) {{
                {made}
                #pragma unroll
                for (int j = 0; j < PACK; j++) {{
                    {inner}
                    sum[j] += {g};
                    both[j] += {g} * ({seen} - middle[j]);
                }}
                {store}
            }}
        }}
        for (int j = 0; j < PACK; j++) {{ part[k * C + c + j] = sum[j]; part[(chunks + k) * C + c + j] = both[j]; }}
    }}
}}
"""


fusable("cuda", "tail", "batch_norm_grad")
