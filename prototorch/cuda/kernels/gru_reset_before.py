"""The kernels of a GRU time step with the reset gate before the product (``reset_after: false``).

A step has two products and a kernel after each: the reset gate times the state, then the new state. The formulas are
written in ops; their C and that of their gradients are generated from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from prototorch.cuda.kernels.launch import c_type, complete_source
from prototorch.cuda.kernels.recurrent_cells import boundary_source
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer, TracedScalar, UntraceableError
from prototorch.ops.core import ArrayInterpreter, gradients, use_interpreter
from prototorch.ops.elementwise import where
from prototorch.ops.recurrent import GATE_ACTIVATIONS

__all__ = ["gru_source"]

Formula = Callable[..., Any]
#: inputs of the two formulas: gates' parts of x, of the product with the state or with what is left of it, the state
RESET, NEW = ("x1", "p1", "s"), ("x0", "x2", "p0", "p2", "s")


def _gru_formulas(activation: str, gate_name: str) -> tuple[Formula, Formula]:
    squash, gate = GATE_ACTIVATIONS[activation], GATE_ACTIVATIONS[gate_name]

    def reset(x: Any, p: Any, h: Any) -> Any:
        return gate(x + p) * h

    def new(x0: Any, x2: Any, p0: Any, p2: Any, h: Any) -> Any:
        z = gate(x0 + p0)
        return z * h + (1 - z) * squash(x2 + p2)

    return reset, new


def _trace_formula(
    formula: Formula, names: tuple[str, ...], dtype: str, masked: bool, inputs_to_differentiate: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Lines of C and the names of their results: the formula's, or its gradients by ``wanted``, of ``d``."""
    module = ScalarTracer()
    arrays: Any = ArrayInterpreter(module)
    values = {name: arrays.value(TracedScalar(module, name, module.compute_dtype(dtype))) for name in names}
    keep = arrays.value(TracedScalar(module, "keep", "bool")) if masked else None

    def step(*_: Any) -> Any:
        values_of_step = formula(*values.values())
        return values_of_step if keep is None else where(keep, values_of_step, values["s"])

    with use_interpreter(arrays):
        if not inputs_to_differentiate:
            results = [step()]
        else:
            seed = arrays.value(TracedScalar(module, "d", module.compute_dtype(dtype)))
            gradients_of_step = gradients(step, *(values[name] for name in inputs_to_differentiate), seeds=[seed])
            results = [arrays.constant(module.asarray(0, dtype)) if g is None else g for g in gradients_of_step]
    return module.lines, [v.array.name for v in results]


def _load_lines(kind: str, names: tuple[str, ...], masked: bool) -> list[str]:
    """The inputs of a formula; p holds the products of two gates, q that of the new content."""
    places = {
        "x0": "x[xat]", "x1": "x[xat + UNITS]", "x2": "x[xat + 2 * UNITS]", "s": "old[e]",
        "p0": "p[pat]) + get(bias[u]", "p1": "p[pat + UNITS]) + get(bias[UNITS + u]",
        "p2": "q[e]) + get(bias[2 * UNITS + u]",
    }  # fmt: skip
    lines = [f"const {kind} {name} = get({places[name]});" for name in names]
    return [*lines, *(["const bool keep = mask[b * STEPS + t];"] if masked else [])]


@lru_cache(maxsize=64)
def gru_source(
    units: int, steps: int, dtype: str, masked: bool, activation: str, gate: str, largest: int = 0
) -> str | None:
    """The text with all kernels of the walks; None where an activation is not one of single elements.

    ``parts`` and ``whole`` take the weights apart and put their gradients together, ``left`` is what the reset gate
    leaves of the state (of one step or of all), ``step`` the new state; ``back`` and ``back_left`` are their gradients.
    """
    reset, new = _gru_formulas(activation, gate)
    try:
        left, made_left = _trace_formula(reset, RESET, dtype, False)
        step, new_values = _trace_formula(new, NEW, dtype, masked)
        back_left, d_left = _trace_formula(reset, RESET, dtype, False, ("x1", "s"))
        back, d = _trace_formula(new, NEW, dtype, masked, ("x0", "x2", "s"))
    except UntraceableError:
        return None
    kind = "double" if dtype == "float64" else "float"
    join_lines = "\n        ".join
    mask = ", const bool* mask" if masked else ""
    place = """const index b = e / UNITS, u = e % UNITS, pat = b * 2 * UNITS + u;
        const index xat = (b * STEPS + t) * 3 * UNITS + u;"""
    text = f"""#define UNITS {units}
#define STEPS {steps}
#define X {c_type(dtype)}
KERNEL parts(index n, const X* u, X* early, X* late) {{
    EACH(i, n) {{
        const index row = i / (3 * UNITS), c = i % (3 * UNITS);
        if (c < 2 * UNITS) early[row * 2 * UNITS + c] = u[i];
        else late[row * UNITS + c - 2 * UNITS] = u[i];
    }}
}}
KERNEL whole(index n, const X* early, const X* late, X* u) {{
    EACH(i, n) {{
        const index row = i / (3 * UNITS), c = i % (3 * UNITS);
        u[i] = c < 2 * UNITS ? early[row * 2 * UNITS + c] : late[row * UNITS + c - 2 * UNITS];
    }}
}}
// rows of samples, time first from step ``from`` on, backwards where ``turned``
KERNEL left(index n, index samples, index from, u32 turned, const X* x, const X* p, const X* bias, const X* old,
            X* out) {{
    EACH(e, n) {{
        const index u = e % UNITS, row = e / UNITS, pat = row * 2 * UNITS + u, place = row / samples;
        const index t = turned ? from - place : from + place;
        const index xat = (row % samples * STEPS + t) * 3 * UNITS + u;
        {join_lines([*_load_lines(kind, RESET, False), *left, f"put(out[e], {made_left[0]});"])}
    }}
}}
KERNEL step(index n, index t, index place, const X* x, const X* p, const X* q, const X* bias{mask}, const X* old,
            X* now, X* all, X* last) {{
    EACH(e, n) {{
        {place}
        {join_lines([*_load_lines(kind, NEW, masked), *step])}
        put(all[(b * STEPS + place) * UNITS + u], {new_values[0]});
        put(now[e], {new_values[0]});
        if (place == STEPS - 1) put(last[e], {new_values[0]});
    }}
}}
KERNEL back(index n, index t, index place, u32 carried, const X* x, const X* p, const X* q, const X* bias{mask},
            const X* old, const X* grad, const X* through, {kind}* now, X* dx, X* dp, X* dq) {{
    EACH(e, n) {{
        {place}
        const {kind} d = get(grad[(b * STEPS + place) * UNITS + u]) + now[e] + (carried ? get(through[e]) : 0);
        {join_lines([*_load_lines(kind, NEW, masked), *back])}
        put(dx[xat], {d[0]});
        put(dp[pat], {d[0]});
        put(dx[xat + 2 * UNITS], {d[1]});
        put(dq[e], {d[1]});
        now[e] = {d[2]};
    }}
}}
KERNEL back_left(index n, index t, const X* x, const X* p, const X* bias, const X* old, const X* of_left,
                 {kind}* now, X* dx, X* dp) {{
    EACH(e, n) {{
        {place}
        const {kind} d = get(of_left[e]);
        {join_lines([*_load_lines(kind, RESET, False), *back_left])}
        put(dx[xat + UNITS], {d_left[0]});
        put(dp[pat + UNITS], {d_left[0]});
        now[e] += {d_left[1]};
    }}
}}
{boundary_source(kind)}"""
    return complete_source(text, largest)
