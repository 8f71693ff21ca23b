"""Elementwise ops and fused groups of them: a CUDA kernel is generated for the formula, not for the shape.

One launch reads every input once and writes every output once, in vectors of up to 16 bytes where the memory is
contiguous. Inputs broadcast by strides that are arguments; adjacent axes that are contiguous in all arrays are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from prototorch.cuda.kernels.launch import (
    ITEM_BYTES,
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    complete_source,
    contiguous_strides,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    memory_order,
    vector_width,
)
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer, TracedScalar, UntraceableError, trace_op
from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.engine.backends.registry import register_resolver
from prototorch.ops.core import Op
from prototorch.ops.fused import FusedProgram, OperandRef
from prototorch.ops.operators import OPS
from prototorch.ops.update import Update
from prototorch.spec import Spec

__all__ = [
    "ElementwiseKernel",
    "elementwise_launches",
    "fused_elementwise",
    "is_elementwise",
    "is_traceable",
    "merge_axes",
    "trace_program",
]

_BROADCASTS = ("broadcast_to", "full")  # one element of the output from at most one of the input


def is_elementwise(name: str) -> bool:
    """Whether an op computes each element of its outputs from the same element of its inputs."""
    op = OPS.get(name)
    return isinstance(op, Op) and op.elementwise and not op.is_view


def is_traceable(name: str) -> bool:
    """Whether an elementwise kernel may contain an op: its reference implementation can be run on scalars."""
    return is_elementwise(name) or name in _BROADCASTS or name == "batch_norm_inference"


def merge_axes(out: Spec, ins: Sequence[Spec]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The axes of the output's memory, with adjacent ones merged where every input allows it.

    Returns the sizes, the slowest first, and for each input its strides in elements along them (0: it broadcasts).
    """
    order = memory_order(out)
    sizes = [out.shape[a] for a in order]
    strides = []
    for spec in ins:
        strides_of_input = contiguous_strides(spec)
        skip = out.ndim - spec.ndim
        strides.append([0 if a < skip or spec.shape[a - skip] == 1 else strides_of_input[a - skip] for a in order])
    long_axes = [k for k, n in enumerate(sizes) if n > 1]
    dims: list[int] = []
    lanes: list[list[int]] = [[] for _ in ins]
    for k in reversed(long_axes):
        joins = dims and all(s[k] == lane[-1] * dims[-1] for s, lane in zip(strides, lanes, strict=True))
        if joins:
            dims[-1] *= sizes[k]
        else:
            dims.append(sizes[k])
            for s, lane in zip(strides, lanes, strict=True):
                lane.append(s[k])
    return tuple(reversed(dims)), [tuple(reversed(lane)) for lane in lanes]


Formula = tuple[tuple[str, ...], tuple[str, ...]]


@lru_cache(maxsize=1024)
def trace_program(program: FusedProgram, outputs: tuple[OperandRef, ...], types: tuple[str, ...]) -> Formula | None:
    """The lines of C that compute a program from a0, a1, ..., and the names of its results; None: not elementwise."""
    module = ScalarTracer()
    inputs = [TracedScalar(module, f"a{i}", module.compute_dtype(t)) for i, t in enumerate(types)]
    results_of: list[tuple[TracedScalar, ...]] = []

    def operand(ref: OperandRef) -> TracedScalar:
        if ref[0] == "const":
            return module.asarray(ref[1], ref[2])
        return inputs[ref[1]] if ref[0] == "in" else results_of[ref[1]][ref[2]]

    try:
        for name, refs, attrs in program:
            results_of.append(trace_op(OPS[name], module, [operand(r) for r in refs], dict(attrs)))  # type: ignore[arg-type]
        results = tuple(operand(r).name for r in outputs)
    except UntraceableError:
        return None
    return tuple(module.lines), results


def elementwise_source(
    lines: Sequence[str],
    results: Sequence[str],
    kinds: Sequence[str],
    ins: Sequence[str],
    outs: Sequence[str],
    rank: int,
    modes: Sequence[str],
    pack: int,
) -> str:
    """The body of a kernel ``fused_elementwise``. kinds: the C types of a0, a1, ...; ins, outs: element types in C;
    modes: of each
    input "all" (as the output), "one" (a single element) or one letter for each axis, "s" (its own stride) or "0"."""
    args = [f"const {t}* in{i}" for i, t in enumerate(ins)] + [f"{t}* out{i}" for i, t in enumerate(outs)]
    has_broadcast = any(m not in ("all", "one") for m in modes)
    if has_broadcast:
        args += [f"index d{k}" for k in range(1, rank)]
        moving = [(i, m) for i, m in enumerate(modes) if m not in ("all", "one")]
        args += [f"index s{i}_{k}" for i, m in moving for k in range(rank) if m[k] == "s"]
    head, load = [], []
    if has_broadcast:
        head.append("index rest = at;")
        for k in range(rank - 1, 0, -1):
            head.append(f"const index c{k} = rest % d{k}; rest /= d{k};")
        head.append("const index c0 = rest;")
    for i, (mode, t) in enumerate(zip(modes, ins, strict=True)):
        if mode == "all":
            head.append(f"const pack<{t}, {pack}> p{i} = *(const pack<{t}, {pack}>*)(in{i} + at);")
            load.append(f"const {kinds[i]} a{i} = get(p{i}.v[j]);")
        elif mode == "one":
            load.append(f"const {kinds[i]} a{i} = b{i};")
        else:
            place = " + ".join(f"c{k} * s{i}_{k}" for k in range(rank) if mode[k] == "s")
            head.append(f"const {t}* q{i} = in{i} + ({place});")
            load.append(f"const {kinds[i]} a{i} = get(q{i}[{f'j * s{i}_{rank - 1}' if mode[-1] == 's' else '0'}]);")
    once = [f"const {kinds[i]} b{i} = get(in{i}[0]);" for i, m in enumerate(modes) if m == "one"]
    head += [f"pack<{t}, {pack}> r{i};" for i, t in enumerate(outs)]
    store = [f"put(r{i}.v[j], {name});" for i, name in enumerate(results)]
    last = [f"*(pack<{t}, {pack}>*)(out{i} + at) = r{i};" for i, t in enumerate(outs)]
    inner = "\n            ".join([*load, *(f"const {line}" for line in lines), *store])
    begin, around, end = "\n    ".join(once), "\n        ".join(head), "\n        ".join(last)
    return f"""
template <class T, int N> struct alignas(sizeof(T) * N) pack {{ T v[N]; }};
KERNEL fused(index n, {", ".join(args)}) {{
    {begin}
    EACH(i, n) {{
        const index at = i * {pack};
        {around}
        #pragma unroll
        for (int j = 0; j < {pack}; j++) {{
            {inner}
        }}
        {end}
    }}
}}
"""


def elementwise_launches(
    program: FusedProgram, results: tuple[OperandRef, ...], ins: tuple[Spec, ...], outs: tuple[Spec, ...]
) -> LaunchSequence | None:
    """The launch that computes a program; None where it is not elementwise or its outputs differ in shape or layout."""
    if not all(is_traceable(name) for name, _, _ in program):
        return None
    first = outs[0]
    if any(o.shape != first.shape or memory_order(o) != memory_order(first) for o in outs):
        return None
    if any(s.ndim > first.ndim for s in ins):
        return None
    traced = trace_program(program, results, tuple(s.dtype for s in ins))
    if traced is None:
        return None
    dims, strides = merge_axes(first, ins)
    flat = contiguous_strides(Spec(dims)) if dims else ()
    modes, numbers = [], []
    for spec, strides_of_input in zip(ins, strides, strict=True):
        if spec.size == first.size and strides_of_input == flat:
            modes.append("all")
        elif not any(strides_of_input):
            modes.append("one")
        else:
            modes.append("".join("s" if s else "0" for s in strides_of_input))
            numbers += [s for s in strides_of_input if s]
    has_broadcast = any(m not in ("all", "one") for m in modes)
    widest = max((*ins, *outs), key=lambda s: ITEM_BYTES[s.dtype])
    pack = vector_width(widest, dims[-1] if dims else 1)
    if has_broadcast:
        numbers = [*dims[1:], *numbers]
    module = ScalarTracer()
    kinds = [module.compute_c_type(module.compute_dtype(s.dtype)) for s in ins]
    largest = max(s.size for s in (*ins, *outs))
    body = elementwise_source(
        *traced, kinds, [c_type(s) for s in ins], [c_type(o) for o in outs], len(dims), modes, pack
    )
    count = first.size // pack
    arrays = (*(InputArg(i) for i in range(len(ins))), *(OutputArg(i) for i in range(len(outs))))
    args = (index_scalar(count, largest), *arrays, *(index_scalar(n, largest) for n in numbers))
    return LaunchSequence(grid_stride_launch(complete_source(body, largest), "fused", count, *args))


class ElementwiseKernel(LaunchSequence):
    """The kernel of a program over arrays of one size and scalars, with what `optimizer_update.fuse_updates` needs."""

    def __init__(
        self,
        launches: LaunchSequence,
        key: tuple[FusedProgram, tuple[OperandRef, ...]],
        ins: tuple[Spec, ...],
        outs: tuple[Spec, ...],
    ):
        super().__init__(*launches.launches)
        self.key, self.ins, self.outs = key, ins, outs

    def group_key(self) -> tuple[Any, ...]:
        """Kernels with equal keys can be fused into one launch."""
        numbers = tuple(s.size == 1 for s in self.ins)
        return (*self.key, tuple(s.dtype for s in (*self.ins, *self.outs)), numbers, id(self.device))


def prepare_elementwise(
    program: FusedProgram, results: tuple[OperandRef, ...], ins: tuple[Spec, ...], outs: tuple[Spec, ...]
) -> LaunchSequence | None:
    """`elementwise_launches`, which several may be joined to one where each array is read from its beginning to its
    end."""
    launches, size = elementwise_launches(program, results, ins, outs), outs[0].size
    if launches is None or any(s.layout or s.size not in (1, size) for s in (*ins, *outs)):
        return launches
    return ElementwiseKernel(launches, (program, results), ins, outs)


def _register(name: str) -> None:
    @cuda_kernel(name, layouts=True)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
        refs = tuple(("in", i) for i in range(len(ins)))
        return prepare_elementwise(((name, refs, tuple(sorted(attrs.items()))),), (("node", 0, 0),), ins, outs)


_generated: set[str] = set()  # the ops whose kernel is generated


def _resolve(name: str) -> None:
    """Generate the kernel of an elementwise op from its reference implementation."""
    op = OPS.get(name)
    if is_elementwise(name) and not isinstance(op, Update):
        if name in _generated:  # another op had this name
            trace_program.cache_clear()
            return
        _generated.add(name)
        _register(name)
        register_fusion_role("cuda", "elementwise", name)


register_resolver("cuda", _resolve)
for _name in _BROADCASTS:
    _register(_name)


@cuda_kernel("fused", layouts=True)
def fused_elementwise(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """A group of elementwise ops in one kernel."""
    return prepare_elementwise(attrs["program"], attrs["outputs"], ins, outs)
