"""A reduction of what elementwise ops have just made: numbers are reduced while they are in registers, and only those
that are read elsewhere are written to memory."""

from __future__ import annotations

from typing import Any

from prototorch.backends.core import fusable
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Kernel, Num, Unsupported
from prototorch.backends.cpu.native.kernels.elementwise import program_formula
from prototorch.backends.cpu.native.kernels.reduce import plan_of, reduced, strung
from prototorch.backends.cpu.native.kernels.reduce_plan import Plan
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

_TAILS = ("sum", "mean")
_TYPES = ("float32", "int32", "uint8", "bool", "int64", "uint32")


def _swept(k: Kernel, plan: Plan, name: str, last: bool, program: Any, source: Any, kept: tuple[Any, ...],
           given: tuple[tuple[str, bool], ...], made: tuple[str, ...]) -> None:  # fmt: skip
    """Arguments: the inputs (types, and whether each is full-size), the outputs that are ``kept`` (refs and types), the
    result. ``source`` is the ref of what is reduced."""
    inputs = [k.pointer(i, dtype) for i, (dtype, _) in enumerate(given)]
    outputs = [k.pointer(len(inputs) + i, dtype) for i, dtype in enumerate(made)]
    numbers = [None if full else p.load() for p, (_, full) in zip(inputs, given, strict=True)]
    work = program_formula(program, (source, *kept))

    def read(at: Any, lanes: int, mask: Num | None) -> Num:
        found = [p.load(at, lanes, mask) if n is None else n for p, n in zip(inputs, numbers, strict=True)]
        value, *others = work(k, found)
        for p, other in zip(outputs, others, strict=True):
            p.store(k.num(other).cast(p.dtype).splat(lanes), at, mask)
        return value.splat(lanes)

    reduced(k, plan, name, "float32", k.pointer(len(inputs) + len(outputs)) if last else None, read)


@native("fused")
def fused(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Elementwise ops and a sum at the end."""
    *lines, (name, operands, own) = attrs["program"]
    last, refs, source = len(lines), attrs["outputs"], operands[0]
    if name not in _TAILS or source[0] != "node" or ("node", last, 0) not in refs or not lines:
        return None
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in lines):
        return None
    at = refs.index(("node", last, 0))
    kept = [i for i in range(len(outs)) if i != at]
    if dict(attrs.get("inplace", ())).get(at) is not None or outs[at].dtype != "float32":
        return None
    full = [s for s in (*ins, *(outs[i] for i in kept)) if s.size > 1]
    x = max(full, key=lambda s: s.size, default=None)
    if x is None or any((s.shape, s.layout) != (x.shape, x.layout) for s in full):
        raise Unsupported("an operand that is not full-size")
    if any(s.dtype not in _TYPES for s in (*ins, *outs)):
        raise Unsupported("a type of number")
    plan, count = plan_of(Spec(x.shape, "float32", x.layout), outs[at], dict(own).get("axis"))
    made = code(_swept, plan, name, plan.parts == 1, tuple(lines), source, tuple(refs[i] for i in kept),
                tuple((s.dtype, s.size > 1) for s in ins), tuple(outs[i].dtype for i in kept))  # fmt: skip
    made.emitted("trial")
    tasks = strung(made, plan, name, "float32", count)
    return Tasks(lambda i, o: tasks.bind(i, [*(o[j] for j in kept), o[at]]))


fusable("native", "tail", *_TAILS)
