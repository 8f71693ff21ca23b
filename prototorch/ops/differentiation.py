"""Reverse-mode differentiation: one reverse sweep over the applications of ops, for graphs and for the eager tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prototorch.ops.interpreters import Application, find_interpreter, use_interpreter
from prototorch.spec import FLOAT_DTYPES

__all__ = ["backward_pass", "gradients"]


def gradients(function: Callable[..., Any], *inputs: Any, seeds: Sequence[Any]) -> list[Any]:
    """Gradients of the inputs of a function of ops (None where there is none), from those of its outputs.

    ``inputs`` and ``seeds`` are values; a seed is None for an output without a gradient. The result can be
    differentiated again, because it is computed by ops on the same interpreter.
    """
    with use_interpreter(find_interpreter(inputs)) as interpreter:
        result, applications = interpreter.collect(lambda: function(*inputs))
        outputs = result if isinstance(result, tuple) else (result,)
        pairs = [(v, g) for v, g in zip(outputs, seeds, strict=True) if g is not None]
        return backward_pass(applications, pairs, inputs)


def backward_pass(
    applications: Sequence[Application],
    seeds: Sequence[tuple[Any, Any]],
    targets: Sequence[Any],
    within: Callable[[Any], AbstractContextManager[Any]] = nullcontext,
) -> list[Any]:
    """Gradients with respect to the target values, given gradients of some outputs (None: no path to a target).

    ``applications`` are in the order in which they were made; ``seeds`` are pairs (output, gradient of it). Gradients
    are computed by calling ops, so that they belong to the interpreter of the seeds: in the graph, or on the tape. The
    ops of an application's gradient are called inside the context ``within(application)``.
    """
    needed = {id(v) for v in targets}  # targets, and all values that depend on them
    for application in applications:
        if any(id(v) in needed for v in application.inputs):
            needed.update(id(o) for o in application.outputs if _is_float(o))
    grads: dict[int, Any] = {}
    for value, g in seeds:
        _accumulate_grad(grads, value, g)
    target_ids = {id(v) for v in targets}
    with use_interpreter(find_interpreter([value for value, _ in seeds])):
        for application in reversed(applications):
            _propagate(application, grads, needed, target_ids, within)
    return [grads.get(id(v)) for v in targets]


def _propagate(
    application: Application,
    grads: dict[int, Any],
    needed: set[int],
    target_ids: set[int],
    within: Callable[[Any], AbstractContextManager[Any]],
) -> None:
    """Add the contribution of one application to the gradients of its inputs."""
    output_grads = [  # of a value that is no target, the gradient is not needed after this
        grads.get(id(o)) if id(o) in target_ids else grads.pop(id(o), None) for o in application.outputs
    ]
    needs = [id(v) in needed and _is_float(v) for v in application.inputs]
    if all(g is None for g in output_grads) or not any(needs):
        return
    op, inputs = application.op, application.inputs
    with within(application):
        input_grads = op.vjp(output_grads, application.outputs, inputs, needs, application.attrs)
        for value, g in zip(inputs, input_grads, strict=True):
            if g is not None:
                _accumulate_grad(grads, value, g)


def _is_float(value: Any) -> bool:
    return value.dtype in FLOAT_DTYPES


def _accumulate_grad(grads: dict[int, Any], value: Any, g: Any) -> None:
    if tuple(g.shape) != tuple(value.shape):
        raise AssertionError(f"a gradient of shape {g.shape} for a value of shape {value.shape}")
    previous = grads.get(id(value))
    grads[id(value)] = g if previous is None else previous + g
