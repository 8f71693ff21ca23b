"""Random inputs for a step of a model, for measuring without data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.engine.backends.executable_plan import ExecutablePlan
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

_DEFAULT_INDEX_COUNT = 2  # the range of integers of which nothing else is known


def make_synthetic_batch(
    plan_cache: PlanCache, plan: ExecutablePlan, specs: Mapping[str, Spec], seed: int = 0
) -> dict[str, Any]:
    """An array for each input of a plan for inputs of these specs.

    Targets are valid for the losses. The learning rate is 0, so that the weights do not change.
    """
    rng = np.random.default_rng(seed)
    constants: dict[str, Any] = {LEARNING_RATE: np.float32(0), STEP: np.int64(1), RANDOM_KEY: random_key(seed, 1)}
    batch: dict[str, Any] = {}
    outputs = plan_cache.output_specs(specs) if plan_cache.loss_terms else {}
    for name, spec in plan.inputs.items():
        if name.partition(":")[0] in constants:  # one of several optimizers has learning_rate:NAME
            batch[name] = constants[name.partition(":")[0]]
        elif name.startswith(SAMPLE_WEIGHT_PREFIX) or name == SAMPLE_MASK:
            batch[name] = np.ones(spec.shape, spec.dtype)
        elif name.startswith(TARGET_PREFIX):
            batch[name] = _random_target(plan_cache, name.removeprefix(TARGET_PREFIX), outputs, spec, rng)
        else:
            _, index_count = plan_cache.net.index_inputs().get(name, ("", _DEFAULT_INDEX_COUNT))
            batch[name] = _random_array(spec, index_count, rng)
    return batch


def _random_target(plan_cache: PlanCache, output: str, outputs: Mapping[str, Spec], spec: Spec, rng: Any) -> np.ndarray:
    loss = next(t.loss for t in plan_cache.loss_terms if t.output == output and t.loss.needs_target)
    if loss.target_kind == "classes":
        return _random_array(Spec(spec.shape, "int64"), outputs[output].shape[loss.class_axis], rng).astype(spec.dtype)
    if loss.target_kind == "one_hot":
        labels = rng.integers(0, spec.shape[loss.class_axis], spec.shape)
        top = labels == labels.max(loss.class_axis, keepdims=True)
        return (top / top.sum(loss.class_axis, keepdims=True)).astype(spec.dtype)
    if loss.target_kind == "binary":
        return rng.integers(0, 2, spec.shape).astype(spec.dtype)
    return _random_array(spec, _DEFAULT_INDEX_COUNT, rng)


def _random_array(spec: Spec, index_count: int, rng: Any) -> np.ndarray:
    if spec.is_float:
        return rng.standard_normal(spec.shape, np.float32).astype(spec.dtype)
    return rng.integers(0, 256 if spec.dtype == "uint8" else index_count, spec.shape).astype(spec.dtype)
