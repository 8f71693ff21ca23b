"""Compiling the kernels that a model's steps need before they are run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.engine.backends.cpu.native import unavailable_reason
from prototorch.errors import BackendError
from prototorch.model.diagnose import default_batch_size, resolve_phase
from prototorch.model.model import Model
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import step_specs

__all__ = ["PREDICT", "TEST", "TRAIN", "WarmupResult", "model_phases", "warm_up"]


@dataclass(frozen=True)
class WarmupResult:
    """One plan: kernels compiled now, kernels found in the cache, and seconds of planning and compiling."""

    model: str
    phase: str
    batch: int
    compiled: int
    loaded: int
    seconds: float


def model_phases(model: Model) -> tuple[str, ...]:
    """The phases a model has a step for: without a loss only prediction."""
    plan_cache = model.trainer.plan_cache
    return (*plan_cache.training_phases, TEST, PREDICT) if plan_cache.loss_terms else (PREDICT,)


def warm_up(model: Model, phases: Sequence[str] = (), batches: Sequence[int] = ()) -> list[WarmupResult]:
    """Compile the kernels of a model's steps; no weights are initialized and nothing is run.

    phases: "train", "test", "predict" (default: all that the model has). batches: batch sizes (default: that of the
    fit block, else 32). Raises BackendError where there are no native kernels to compile.
    """
    reason = unavailable_reason()
    plans = model.trainer.plan_cache
    if reason is not None or "native" not in plans.backend.levels:
        raise BackendError(f"there are no kernels to compile: {reason or f'the device is {plans.backend.name}'}")
    counts = plans.backend.compile_counts
    results = []
    for batch in batches or (default_batch_size(model),):
        for phase in phases or model_phases(model):
            start, before = time.perf_counter(), counts()
            specs = step_specs(model.net, batch)
            phase = resolve_phase(model, phase)
            kernels = plans.step_kernels(plans.plan(phase, specs, create=False))
            if phase != PREDICT and plans.can_pad(phase, specs):
                kernels += plans.step_kernels(plans.plan(phase, specs, create=False, with_mask=True))
            plans.backend.warm_up(kernels)
            compiled, loaded = (now - was for now, was in zip(counts(), before, strict=True))
            results.append(WarmupResult(model.net.name, phase, batch, compiled, loaded, time.perf_counter() - start))
    return results
