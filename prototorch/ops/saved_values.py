"""Which values of an op its derivative reads: an interpreter keeps the arrays of no others for the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from prototorch.ops.interpreters import OpProtocol, SpecInterpreter, use_interpreter
from prototorch.spec import Spec

__all__ = ["SavedPositions", "saved_positions"]


class SavedPositions(NamedTuple):
    """The positions of the inputs and of the outputs whose elements a derivative reads."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@lru_cache(maxsize=16384)
def saved_positions(
    op: OpProtocol,
    ins: tuple[Spec, ...],
    outs: tuple[Spec, ...],
    needs: tuple[bool, ...],
    attrs: tuple[tuple[str, Any], ...],
) -> SavedPositions:
    """The values that `Op.vjp` reads, found by differentiating once on specs.

    needs: which inputs need a gradient. Where the derivative cannot be evaluated on specs, all are given.
    """
    read_inputs: set[int] = set()
    read_outputs: set[int] = set()
    floats = [k for k, spec in enumerate(outs) if spec.is_float]
    for positions in [floats, *([k] for k in floats if len(floats) > 1)]:
        reads = _read(op, ins, outs, needs, dict(attrs), positions)
        if reads is None:
            return SavedPositions(tuple(range(len(ins))), tuple(range(len(outs))))
        read_inputs.update(reads[0])
        read_outputs.update(reads[1])
    return SavedPositions(tuple(sorted(read_inputs)), tuple(sorted(read_outputs)))


def _read(
    op: OpProtocol,
    ins: Sequence[Spec],
    outs: Sequence[Spec],
    needs: Sequence[bool],
    attrs: dict[str, Any],
    with_grads: Sequence[int],
) -> tuple[set[int], set[int]] | None:
    interpreter = SpecInterpreter()
    inputs, outputs = list(map(interpreter.value, ins)), list(map(interpreter.value, outs))
    grads = [interpreter.value(spec) if k in with_grads else None for k, spec in enumerate(outs)]
    try:
        with use_interpreter(interpreter):
            results, applications = interpreter.collect(lambda: op.vjp(grads, outputs, inputs, needs, attrs))
    except (AttributeError, TypeError, ValueError):  # it reads elements, which a spec has none of
        return None
    read = {id(v) for application in applications for v in application.inputs} | {id(v) for v in results}
    return ({k for k, v in enumerate(inputs) if id(v) in read}, {k for k, v in enumerate(outputs) if id(v) in read})
