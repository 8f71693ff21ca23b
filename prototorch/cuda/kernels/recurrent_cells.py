"""One time step of a recurrent layer as a kernel: the cell is written in ops, once; its C and that of its gradient are
generated from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from prototorch.cuda.kernels.launch import c_type, complete_source
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer, TracedScalar, UntraceableError
from prototorch.ops.core import ArrayInterpreter, gradients, use_interpreter
from prototorch.ops.elementwise import where
from prototorch.ops.recurrent import GATE_ACTIVATIONS

__all__ = ["CELLS", "boundary_source", "cell_sources", "load_lines", "trace_step"]

#: op -> (gates, states, whether the product with the state gets a bias)
CELLS = {"simple_rnn_sequence": (1, 1, False), "lstm_sequence": (4, 2, False), "gru_sequence": (3, 1, True)}


def _cell(name: str, activation: str, gate_name: str) -> Callable[[Any, Any, Any], list[Any]]:
    """The cell: gates from the input, gates from the state, old states -> new states."""
    squash, gate = GATE_ACTIVATIONS[activation], GATE_ACTIVATIONS[gate_name]

    def simple(x: Any, p: Any, states: Any) -> list[Any]:
        return [squash(x[0] + p[0])]

    def lstm(x: Any, p: Any, states: Any) -> list[Any]:
        i, f, g, o = (a + b for a, b in zip(x, p, strict=True))
        c = gate(f) * states[1] + gate(i) * squash(g)
        return [gate(o) * squash(c), c]

    def gru(x: Any, p: Any, states: Any) -> list[Any]:
        z, r = gate(x[0] + p[0]), gate(x[1] + p[1])
        new = squash(x[2] + r * p[2])
        return [z * states[0] + (1 - z) * new]

    return {"simple_rnn_sequence": simple, "lstm_sequence": lstm, "gru_sequence": gru}[name]


def _trace_cell(
    name: str, activation: str, gate: str, masked: bool, dtype: str, backward: bool
) -> tuple[list[str], list[str]]:
    count, states, _ = CELLS[name]
    module = ScalarTracer()
    arrays: Any = ArrayInterpreter(module)

    def symbols(prefix: str, n: int, kind: str = "") -> list[Any]:
        return [
            arrays.value(TracedScalar(module, f"{prefix}{k}", kind or module.compute_dtype(dtype))) for k in range(n)
        ]

    x, p, old = symbols("x", count), symbols("p", count), symbols("s", states)
    keep = symbols("keep", 1, "bool")[0] if masked else None
    cell = _cell(name, activation, gate)

    def step(*_: Any) -> tuple[Any, ...]:
        new = cell(x, p, old)
        return tuple(new if keep is None else [where(keep, a, b) for a, b in zip(new, old, strict=True)])

    with use_interpreter(arrays):
        if not backward:
            results: Sequence[Any] = step()
        else:
            seeds = symbols("d", states)
            zero = arrays.constant(module.asarray(0, dtype))
            gradients_of_step = gradients(step, *x, *p, *old, seeds=seeds)
            results = [zero if g is None else g for g in gradients_of_step]
    return module.lines, [v.array.name for v in results]


def trace_step(
    name: str, activation: str, gate: str, masked: bool, dtype: str, backward: bool
) -> tuple[list[str], list[str]] | None:
    """The lines of C of one step, or of its gradient, and the names of its results; None where an activation is not
    one of single elements. What the lines read are the names that `load_lines` declares, s0, s1, ... (the states before
    the step) and d0, d1, ... (the gradients of the states after it)."""
    try:
        return _trace_cell(name, activation, gate, masked, dtype, backward)
    except UntraceableError:
        return None


def load_lines(kind: str, name: str, masked: bool) -> list[str]:
    """The lines of C that read a step's gates from the input (x0, ...) and from the state (p0, ...), and its mask."""
    count, _, has_bias = CELLS[name]
    lines = [f"const {kind} x{k} = get(x[xat + {k} * UNITS]);" for k in range(count)]
    bias = " + get(bias[{k} * UNITS + u])" if has_bias else ""
    lines += [f"const {kind} p{k} = get(p[pat + {k} * UNITS]){bias.format(k=k)};" for k in range(count)]
    return [*lines, *(["const bool keep0 = mask[b * STEPS + t];"] if masked else [])]


def boundary_source(kind: str) -> str:
    """The text of what every walk back begins and ends with; ``kind`` is the type of what is added up."""
    return f"""// the first state before each step, time first; the gradients of the last states as numbers to add to
KERNEL shift_states(index n, index samples, const X* first, const X* all, X* out) {{
    EACH(i, n) {{
        const index u = i % UNITS, b = i / UNITS % samples, place = i / UNITS / samples;
        out[i] = place ? all[(b * STEPS + place - 1) * UNITS + u] : first[b * UNITS + u];
    }}
}}
KERNEL begin(index n, const X* in, {kind}* out) {{ EACH(i, n) out[i] = get(in[i]); }}
KERNEL finish(index n, const {kind}* d, const X* through, X* out) {{
    EACH(i, n) put(out[i], d[i] + (through ? get(through[i]) : 0));
}}
"""


@lru_cache(maxsize=256)
def cell_sources(
    name: str, units: int, steps: int, dtype: str, masked: bool, activation: str, gate: str, largest: int = 0
) -> tuple[str, str] | None:
    """The texts with the kernels of a walk forward (``step``) and back (``back``, ``shift_states``); None where an
    activation is not one of single elements. ``largest``: see `kernel_source`."""
    forward = trace_step(name, activation, gate, masked, dtype, False)
    backward = trace_step(name, activation, gate, masked, dtype, True)
    if forward is None or backward is None:
        return None
    count, states, has_bias = CELLS[name]
    kind = "double" if dtype == "float64" else "float"
    join_lines = "\n        ".join
    extra = ", const X* bias" if has_bias else ""
    extra += ", const bool* mask" if masked else ""
    place = f"""const index b = e / UNITS, u = e % UNITS, pat = b * {count} * UNITS + u;
        const index xat = (b * STEPS + t) * {count} * UNITS + u;"""
    macros = f"#define UNITS {units}\n#define STEPS {steps}\n#define X {c_type(dtype)}\n"
    each = range(states)
    loads = load_lines(kind, name, masked)
    old = [f"const {kind} s{j} = get(old{j}[e]);" for j in each]
    lines, results = forward
    stores = [f"put(all{j}[(b * STEPS + place) * UNITS + u], {r}); put(now{j}[e], {r});" for j, r in enumerate(results)]
    stores += [f"if (place == STEPS - 1) put(last{j}[e], {r});" for j, r in enumerate(results)]
    one = f"""{macros}
KERNEL step(index n, index t, index place, const X* x, const X* p{extra}, {", ".join(f"const X* old{j}" for j in each)},
            {", ".join(f"X* now{j}, X* all{j}, X* last{j}" for j in each)}) {{
    EACH(e, n) {{
        {place}
        {join_lines([*loads, *old, *lines, *stores])}
    }}
}}
"""
    lines, results = backward
    # a state before a step is the one after the step before it, or the first one
    old = [
        f"const {kind} s{j} = place ? get(all{j}[(b * STEPS + place - 1) * UNITS + u]) : get(first{j}[e]);"
        for j in each
    ]
    seeds = [
        f"const {kind} d0 = get(grad[(b * STEPS + place) * UNITS + u]) + dnow0[e] + (carried ? get(through[e]) : 0);"
    ]
    seeds += [f"const {kind} d{j} = dnow{j}[e];" for j in range(1, states)]
    stores = [f"put(dx[xat + {k} * UNITS], {results[k]});" for k in range(count)]
    stores += [f"put(dp[pat + {k} * UNITS], {results[count + k]});" for k in range(count)]
    stores += [f"dnow{j}[e] = {results[2 * count + j]};" for j in each]
    two = f"""{macros}
KERNEL back(index n, index t, index place, u32 carried, const X* x, const X* p{extra},
            {", ".join(f"const X* first{j}, const X* all{j}, {kind}* dnow{j}" for j in each)},
            const X* grad, const X* through, X* dx, X* dp) {{
    EACH(e, n) {{
        {place}
        {join_lines([*loads, *old, *seeds, *lines, *stores])}
    }}
}}
{boundary_source(kind)}"""
    return complete_source(one, largest), complete_source(two, largest)
