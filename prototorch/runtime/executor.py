"""Binding a plan: the executor of a plan on a backend, with the arrays of its states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executor import Executor
from prototorch.graph.executable import make_executable
from prototorch.graph.plan import Plan
from prototorch.runtime.variables import Variables

__all__ = ["make_executor"]


def make_executor(plan: Plan, backend: Backend, states: Variables | Mapping[str, Any], arena: Any = None) -> Executor:
    """The executor of a plan: kernels prepared, memory allocated and states bound.

    ``states`` are the arrays of the plan's states by name; a run changes them in place. ``arena`` is memory shared by
    several plans that never run at the same time (default: memory of its own). Raises ResourceError where the memory
    cannot be allocated.
    """
    arrays = states.on_backend(backend) if isinstance(states, Variables) else states
    return backend.make_executor(make_executable(plan), arrays, arena)
