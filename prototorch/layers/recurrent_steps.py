"""A recurrence that is recorded step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import expand_mask

MAX_STEPS = 10_000  # of an input: each is recorded with ops of its own


def run_steps(
    ctx: Context,
    x: ArrayValue,
    step: Callable[..., Sequence[Any]],
    states: Sequence[Any],
    mask: ArrayValue | None,
    sequences: bool,
    backwards: bool,
) -> tuple[Any, ...]:
    """``step(x[:, t], *states)``, which gives the output and the new states, for all steps of x [batch, time, ...].

    Returns the outputs [batch, time, ...] in the order of the steps (without ``sequences`` the last one), and the last
    states. A step that the mask [batch, time] leaves out keeps states and output; the output is 0 before the first one
    that counts (Keras). Raises ShapeError for more than 10,000 steps.
    """
    time = x.shape[1]
    if time > MAX_STEPS:
        ctx.fail(f"its input has {time:,} time steps; at most {MAX_STEPS:,} where a layer is recorded step by step")
    outputs: list[Any] = []
    for t in reversed(range(time)) if backwards else range(time):
        y, *new = step(x[:, t], *states)
        if mask is not None:
            before = outputs[-1] if outputs else ops.zeros_like(y)
            y, *new = (
                ops.where(expand_mask(mask[:, t], a.ndim), a, b)
                for a, b in zip((y, *new), (before, *states), strict=True)
            )
        states = new
        outputs.append(y)
    if not sequences:
        return (outputs[-1], *states)
    whole = ops.stack(outputs, axis=1)
    if mask is not None:
        ctx.set_mask(whole, ops.flip(mask, axis=1) if backwards else mask)
    return (whole, *states)
