"""Gradient accumulation: an update by the mean of the gradients of several steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from prototorch import ops
from prototorch.graph.ir import Graph, Value
from prototorch.runtime.variables import SLOT_PREFIX
from prototorch.train.variable_inits import VariableInits

__all__ = ["ACCUMULATOR_SLOT", "accumulate_gradients"]

ACCUMULATOR_SLOT = "accumulated_gradient"


def accumulate_gradients(
    graph: Graph, inits: VariableInits, gradients: Mapping[str, Value], count: int, is_partial: bool, step: str = ""
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Add the gradients of a step, by weight, to those of the steps before it, which are states of its graph.

    step: the name of the step, where several alternate, which each have sums of their own.
    is_partial: whether later steps of the same update follow. If not, the sums begin again at 0. Gives the means over
    ``count`` steps (none where it is partial), and the new values of the states by their names.
    """
    means, updates = {}, {}
    for name, gradient in gradients.items():
        slot = f"{SLOT_PREFIX}{name}:{ACCUMULATOR_SLOT}{'.' if step else ''}{step}"
        inits[slot] = gradient.spec, partial(np.zeros, gradient.shape, gradient.spec.dtype)
        total = graph.state(slot, gradient.spec) + gradient
        updates[slot] = total if is_partial else ops.full(shape=gradient.shape, value=0, dtype=gradient.dtype)
        means[name] = total * (1.0 / count)
    return ({} if is_partial else means), updates
