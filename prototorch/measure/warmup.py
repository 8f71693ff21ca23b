"""Compiling all that a model's steps need before they are run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.backends.cpu.native import unavailable_reason
from prototorch.checking import default_batch_size, resolve_phase
from prototorch.errors import BackendError
from prototorch.model import Model
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import step_specs


@dataclass(frozen=True)
class WarmupResult:
    """One plan: kernels that were compiled, and kernels that were there already; seconds of planning and compiling."""

    model: str
    phase: str
    batch: int
    compiled: int
    loaded: int
    seconds: float


def model_phases(model: Model) -> tuple[str, ...]:
    """The phases a model has a step for: without a loss only prediction."""
    return (TRAIN, TEST, PREDICT) if model.trainer.plan_cache.loss_terms else (PREDICT,)


def warm_up(model: Model, phases: Sequence[str] = (), batches: Sequence[int] = ()) -> list[WarmupResult]:
    """Compile the kernels of a model's steps; no weights are made and nothing is run.

    phases: "train", "test", "predict"; all that the model has where none is given. batches: the fit block's where none
    is given, else 32. Raises BackendError where there are no native kernels to compile.
    """
    why = unavailable_reason()
    program = model.trainer.plan_cache
    if why is not None or "native" not in program.backend.levels:
        raise BackendError(f"there are no kernels to compile: {why or f'the device is {program.backend.name}'}")
    build = program.backend.compile_counts
    made = []
    for batch in batches or (default_batch_size(model),):
        for phase in phases or model_phases(model):
            began, before = time.perf_counter(), build()
            specs = step_specs(model.net, batch)
            found = [program.plan(resolve_phase(model, phase), specs, create=False)]
            if resolve_phase(model, phase) != PREDICT and program.can_pad(resolve_phase(model, phase), specs):
                found.append(program.plan(resolve_phase(model, phase), specs, create=False, with_mask=True))
            program.backend.warm_up([program.backend.prepare(*said) for plan in found for said in plan.signatures()])
            compiled, loaded = (now - was for now, was in zip(build(), before, strict=True))
            made.append(WarmupResult(model.net.name, phase, batch, compiled, loaded, time.perf_counter() - began))
    return made
