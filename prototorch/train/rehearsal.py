"""Random inputs for a step of a model: what its data would be like, for measuring without data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.graph.plan import Plan
from prototorch.graph.trace import KEY
from prototorch.spec import Spec
from prototorch.train.program import COUNTED, RATE, STEP, TARGET, WEIGHT, Program, key_of

_WORDS = 2  # whole numbers that nothing says more of


def rehearsal(program: Program, plan: Plan, specs: Mapping[str, Spec], seed: int = 0) -> dict[str, Any]:
    """An array for each input of a plan for inputs of these specs.

    Targets are what the losses take; the learning rate is 0, so that the weights stay as they are however often the
    step is run.
    """
    rng = np.random.default_rng(seed)
    fixed: dict[str, Any] = {RATE: np.float32(0), STEP: np.int64(1), KEY: key_of(seed, 1)}
    made: dict[str, Any] = {}
    outputs = program.output_specs(specs) if program.terms else {}
    for name, value in plan.inputs.items():
        if name in fixed:
            made[name] = fixed[name]
        elif name.startswith(WEIGHT) or name == COUNTED:
            made[name] = np.ones(value.shape, value.dtype)
        elif name.startswith(TARGET):
            made[name] = _target(program, name.removeprefix(TARGET), outputs, value.spec, rng)
        else:
            _, words = program.net.indexed().get(name, ("", _WORDS))
            made[name] = _array(value.spec, words, rng)
    return made


def _target(program: Program, output: str, outputs: Mapping[str, Spec], spec: Spec, rng: Any) -> np.ndarray:
    loss = next(t.loss for t in program.terms if t.output == output)
    if loss.target_kind == "classes":
        return _array(Spec(spec.shape, "int64"), outputs[output].shape[loss.class_axis], rng).astype(spec.dtype)
    if loss.target_kind == "one_hot":
        labels = rng.integers(0, spec.shape[loss.class_axis], spec.shape)
        top = labels == labels.max(loss.class_axis, keepdims=True)
        return (top / top.sum(loss.class_axis, keepdims=True)).astype(spec.dtype)
    if loss.target_kind == "binary":
        return rng.integers(0, 2, spec.shape).astype(spec.dtype)
    return _array(spec, _WORDS, rng)


def _array(spec: Spec, words: int, rng: Any) -> np.ndarray:
    if spec.is_float:
        return rng.standard_normal(spec.shape, np.float32).astype(spec.dtype)
    return rng.integers(0, 256 if spec.dtype == "uint8" else words, spec.shape).astype(spec.dtype)
