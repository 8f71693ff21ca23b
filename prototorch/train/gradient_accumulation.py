"""Gradient accumulation: an update by the mean of the gradients of several steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from prototorch import ops
from prototorch.graph.ir import Value
from prototorch.runtime.variables import SLOT_PREFIX

if TYPE_CHECKING:
    from prototorch.train.step_graph import StepGraph

__all__ = ["ACCUMULATOR_SLOT", "accumulate_gradients"]

ACCUMULATOR_SLOT = "accumulated_gradient"


def accumulate_gradients(
    step: StepGraph, gradients: Mapping[str, Value], count: int, is_partial: bool
) -> dict[str, Value]:
    """Add the gradients of a step, by weight, to those of the steps before it, which are states of its graph.

    is_partial: whether later steps of the same update follow. If not, the sums begin again at 0, and their means over
    ``count`` steps are returned; else nothing is.
    """
    means = {}
    for name, gradient in gradients.items():
        slot = f"{SLOT_PREFIX}{name}:{ACCUMULATOR_SLOT}"
        step.inits[slot] = gradient.spec, partial(np.zeros, gradient.shape, gradient.spec.dtype)
        total = step.graph.state(slot, gradient.spec) + gradient
        step.updates[slot] = total if is_partial else ops.zeros_like(gradient)
        means[name] = total * (1.0 / count)
    return {} if is_partial else means
