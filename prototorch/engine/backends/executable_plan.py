"""The executable plan: all that an executor needs to know of a plan, and the border between planning and running.

It names buffers by memory and offset and steps by kernel signature; it holds no graph, no array and no device. Planning
makes it (`graph.executable`), and each backend makes its executor from it (`Backend.make_executor`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.engine.backends.value_guard import ValueCheck
from prototorch.ops.core import Op
from prototorch.spec import Spec

__all__ = [
    "APPLY",
    "GUARD",
    "LOSS",
    "OVERFLOWED",
    "Buffer",
    "ExecutablePlan",
    "ExecutableStep",
    "PersistentTensor",
    "StepSpec",
    "ValueGuard",
]  # fmt: skip

#: outputs that an executor may read: the loss; the same, but NaN where the step must not count; whether the updates
#: count (without it they always do)
LOSS, GUARD, APPLY = "loss", "guard", "apply"
#: beside the outputs of a refused step: the names of the guarded states that would not have been finite
OVERFLOWED = "overflowed"
#: a step without its arrays: the op, the specs of its inputs and outputs, its attributes
StepSpec = tuple[Op, tuple[Spec, ...], tuple[Spec, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Where an operand of a step lies; the same object for the same operand of every step.

    Attributes:
        memory: "arena" (shared by all steps of a run), "persistent" (keeps its contents between runs), "input", "state"
            or "constant".
        offset: bytes from the start of the arena or of the persistent memory.
        name: of the input or the state.
        constant: the elements of a constant.
        stride: bytes between two iterations of the batch loop, for an operand that is a slice of the batch; else 0.
    """

    memory: str
    spec: Spec
    offset: int = 0
    name: str = ""
    constant: np.ndarray | None = None
    stride: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ExecutableStep:
    """One kernel call. ``phase`` is "setup", "forward", "backward" or "update"; ``scope`` the layer it belongs to;
    ``trip_count`` how often it runs in its batch loop (1: it is in none)."""

    op: Op
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    attrs: Mapping[str, Any]
    phase: str
    scope: str
    trip_count: int = 1

    @property
    def signature(self) -> StepSpec:
        """What a kernel is selected by."""
        return self.op, tuple(b.spec for b in self.inputs), tuple(b.spec for b in self.outputs), self.attrs


@dataclass(frozen=True, slots=True)
class PersistentTensor:
    """An output of a setup step that later runs read again.

    ``key`` is equal for tensors that the same ops compute from the same states, in this plan or another one; they may
    share memory. ``states`` are the names of those states.
    """

    offset: int
    nbytes: int
    key: Hashable
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ValueGuard:
    """The guard of a plan's indices: the index of the step that counts those outside of their bounds, the buffer of the
    count, int32, and each check with the buffer of its indices, which keep their elements to the end of a run.

    No step writes a state before that one.
    """

    step: int
    count: Buffer
    checks: tuple[tuple[ValueCheck, Buffer], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ExecutablePlan:
    """Steps, buffers, and the memory that they need.

    Attributes:
        schedule: the steps in the order in which they run, as pairs (index of the step, iteration of its batch loop).
        value_guard: what is known of the indices that the steps read; None where they read none.
        setup_steps: how many steps come first that follow from states alone; they need to run again only after one of
            the states in ``dependencies`` has changed.
        state_copies: states that take the value of a buffer when the run ends.
        written_states: all states that a run changes.
        guarded_states: of these, those that stay as they are in a run whose updates do not count, and that must stay
            finite: trained weights and the slots of optimizers.
        has_bounded_updates: whether the updates of guarded states are finite as long as all that they read is moderate
            (see `watching.py`).
        arena_bytes, persistent_bytes: the sizes of the two memories.
    """

    steps: tuple[ExecutableStep, ...]
    schedule: tuple[tuple[int, int], ...]
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Buffer]
    states: Mapping[str, Spec]
    state_copies: tuple[tuple[str, Buffer], ...]
    written_states: frozenset[str]
    guarded_states: frozenset[str]
    has_bounded_updates: bool
    arena_bytes: int
    persistent_bytes: int
    persistent_tensors: tuple[PersistentTensor, ...]
    setup_steps: int
    dependencies: tuple[str, ...]
    value_guard: ValueGuard | None = None

    def signatures(self) -> Iterator[StepSpec]:
        """The steps as a backend selects kernels for them."""
        return (step.signature for step in self.steps)

    @property
    def first_update(self) -> int:
        """The index of the first step of the phase "update"; the number of steps where there is none."""
        return next((i for i, s in enumerate(self.steps) if s.phase == "update"), len(self.steps))
