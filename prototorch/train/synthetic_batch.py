"""Random inputs for a step of a model: what its data would be like, for measuring without data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.backends.executable_plan import ExecutablePlan
from prototorch.graph.trace import RANDOM_KEY
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import (
    LEARNING_RATE,
    SAMPLE_MASK,
    SAMPLE_WEIGHT_PREFIX,
    STEP,
    TARGET_PREFIX,
    random_key,
)

_DEFAULT_INDEX_COUNT = 2  # whole numbers that nothing says more of


def make_synthetic_batch(
    program: PlanCache, plan: ExecutablePlan, specs: Mapping[str, Spec], seed: int = 0
) -> dict[str, Any]:
    """An array for each input of a plan for inputs of these specs.

    Targets are what the losses take; the learning rate is 0, so that the weights stay as they are however often the
    step is run.
    """
    rng = np.random.default_rng(seed)
    fixed: dict[str, Any] = {LEARNING_RATE: np.float32(0), STEP: np.int64(1), RANDOM_KEY: random_key(seed, 1)}
    made: dict[str, Any] = {}
    outputs = program.output_specs(specs) if program.loss_terms else {}
    for name, spec in plan.inputs.items():
        if name in fixed:
            made[name] = fixed[name]
        elif name.startswith(SAMPLE_WEIGHT_PREFIX) or name == SAMPLE_MASK:
            made[name] = np.ones(spec.shape, spec.dtype)
        elif name.startswith(TARGET_PREFIX):
            made[name] = _random_target(program, name.removeprefix(TARGET_PREFIX), outputs, spec, rng)
        else:
            _, words = program.net.index_inputs().get(name, ("", _DEFAULT_INDEX_COUNT))
            made[name] = _random_array(spec, words, rng)
    return made


def _random_target(program: PlanCache, output: str, outputs: Mapping[str, Spec], spec: Spec, rng: Any) -> np.ndarray:
    loss = next(t.loss for t in program.loss_terms if t.output == output)
    if loss.target_kind == "classes":
        return _random_array(Spec(spec.shape, "int64"), outputs[output].shape[loss.class_axis], rng).astype(spec.dtype)
    if loss.target_kind == "one_hot":
        labels = rng.integers(0, spec.shape[loss.class_axis], spec.shape)
        top = labels == labels.max(loss.class_axis, keepdims=True)
        return (top / top.sum(loss.class_axis, keepdims=True)).astype(spec.dtype)
    if loss.target_kind == "binary":
        return rng.integers(0, 2, spec.shape).astype(spec.dtype)
    return _random_array(spec, _DEFAULT_INDEX_COUNT, rng)


def _random_array(spec: Spec, words: int, rng: Any) -> np.ndarray:
    if spec.is_float:
        return rng.standard_normal(spec.shape, np.float32).astype(spec.dtype)
    return rng.integers(0, 256 if spec.dtype == "uint8" else words, spec.shape).astype(spec.dtype)
