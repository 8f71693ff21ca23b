"""The formula of an optimizer as one fused op: written in ops, recorded once, run in one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from prototorch import ops
from prototorch.graph.ir import Graph, Value
from prototorch.ops.core import use_interpreter
from prototorch.ops.fused import FusedInstruction, OperandRef
from prototorch.spec import Spec

__all__ = ["Formula", "coefficient_dtype", "record_formula"]

#: (variant, weight, gradient, coefficients by name, *slots) -> (new weight, *new slots), in elementwise ops
Formula = Callable[..., Sequence[Any]]

_SIZE = 8  # elements of the arrays that a formula is recorded with; the op takes any number


def coefficient_dtype(dtype: str) -> str:
    """The dtype in which the update of a weight is computed: float32 for the half precisions."""
    return "float64" if dtype == "float64" else "float32"


@lru_cache(maxsize=512)
def record_formula(
    formula: Formula, variant: Hashable, names: tuple[str, ...], num_slots: int, dtype: str
) -> dict[str, Any]:
    """The attributes of the op `ops.fused` that computes a formula.

    Its inputs are the weight, the gradient, the slots, and the coefficients (scalars of `coefficient_dtype`) in the
    order of ``names``; its outputs, the weight and the slots, may be written over them.
    """
    graph, exact = Graph(), coefficient_dtype(dtype)
    arrays = [graph.input(f"array {i}", Spec((_SIZE,), dtype)) for i in range(2 + num_slots)]
    coefficients = [graph.input(name, Spec((), exact)) for name in names]
    with use_interpreter(graph):
        weight, gradient, *slots = [a if dtype == exact else ops.cast(a, dtype=exact) for a in arrays]
        results = formula(
            variant, weight, gradient, SimpleNamespace(**dict(zip(names, coefficients, strict=True))), *slots
        )
        outputs = [r if dtype == exact else ops.cast(r, dtype=dtype) for r in results]
    return _program(graph, [*arrays, *coefficients], outputs)


def _program(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> dict[str, Any]:
    refs: dict[Value, OperandRef] = {v: ("in", i) for i, v in enumerate(inputs)}
    program: list[FusedInstruction] = []
    for number, node in enumerate(graph.nodes):
        operands = [refs.get(v) or ("const", v.array.reshape(()).item(), v.dtype) for v in node.inputs]
        program.append((node.op.name, tuple(operands), tuple(sorted(node.attrs.items()))))
        refs.update((v, ("node", number, k)) for k, v in enumerate(node.outputs))
    over = [0, *range(2, 1 + len(outputs))]  # the gradient is not written over
    return {
        "program": tuple(program),
        "outputs": tuple(refs[v] for v in outputs),
        "inplace": tuple(enumerate(over)),
    }
