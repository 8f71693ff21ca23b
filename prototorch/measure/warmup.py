"""Compiling all that a model's steps need before they are run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.backends.cpu.native import missing
from prototorch.errors import BackendError
from prototorch.inspect import batch_of, phase_of
from prototorch.model import Model
from prototorch.train.program import PREDICT, TEST, TRAIN
from prototorch.train.summary import step_specs


@dataclass(frozen=True)
class Warmed:
    """One plan: kernels that were compiled, and kernels that were there already; seconds of planning and compiling."""

    model: str
    phase: str
    batch: int
    compiled: int
    loaded: int
    seconds: float


def phases_of(model: Model) -> tuple[str, ...]:
    """The phases a model has a step for: without a loss only prediction."""
    return (TRAIN, TEST, PREDICT) if model.trainer.program.terms else (PREDICT,)


def warmed(model: Model, phases: Sequence[str] = (), batches: Sequence[int] = ()) -> list[Warmed]:
    """Compile the kernels of a model's steps; no weights are made and nothing is run.

    phases: "train", "test", "predict"; all that the model has where none is given. batches: the fit block's where none
    is given, else 32. Raises BackendError where there are no native kernels to compile.
    """
    why = missing()
    program = model.trainer.program
    if why is not None or "native" not in program.backend.levels:
        raise BackendError(f"there are no kernels to compile: {why or f'the device is {program.backend.name}'}")
    build = program.backend.counts
    made = []
    for batch in batches or (batch_of(model),):
        for phase in phases or phases_of(model):
            began, before = time.perf_counter(), build()
            specs = step_specs(model.net, batch)
            found = [program.plan(phase_of(model, phase), specs, create=False)]
            if phase_of(model, phase) != PREDICT and program.fillable(phase_of(model, phase), specs):
                found.append(program.plan(phase_of(model, phase), specs, create=False, counted=True))
            program.backend.warm([program.backend.prepare(*said) for plan in found for said in plan.said()])
            compiled, loaded = (now - was for now, was in zip(build(), before, strict=True))
            made.append(Warmed(model.net.name, phase, batch, compiled, loaded, time.perf_counter() - began))
    return made
