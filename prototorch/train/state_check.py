"""The check of what training changes: weights, running statistics, moving averages and the optimizer's state.

A step leaves trained weights and slots as they were where they would not be finite
(`engine/backends/guarded_updates`), on a GPU where its loss or a gradient is not finite. Updates that overflow there
although their gradients are finite, what others have set, and running statistics are found here: every `INTERVAL`
steps, at the end of an epoch, and before a file is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.devices import backend_for
from prototorch.errors import warn_user
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX, Variables
from prototorch.spec import Spec

__all__ = ["INTERVAL", "describe_names", "describe_states", "non_finite_states", "warn_of_loaded"]

INTERVAL = 64  # steps between two checks: the arrays are read twice for each
MAX_NAMES_SHOWN = 4


def non_finite_states(variables: Variables) -> list[str]:
    """The names of the float arrays, totals of metrics left out, that hold a value that is not finite. Each array is
    read where the last step has left it: on the device that it was computed on, or here."""
    arrays_of_backends: dict[Backend, dict[str, Any]] = {}
    on_device = variables.mirror
    for name, array in variables.current_arrays():
        if array.dtype.kind == "f" and array.size and not name.startswith(METRIC_PREFIX):
            backend = backend_for("cpu")
            if on_device is not None and name in on_device.resident:
                backend = on_device.backend
            arrays_of_backends.setdefault(backend, {})[name] = array
    return [name for backend, arrays in arrays_of_backends.items() for name in _non_finite(backend, arrays)]


def _non_finite(backend: Backend, arrays: Mapping[str, Any]) -> list[str]:
    """The names of the arrays of a backend that hold a value that is not finite."""
    extremes = backend.empty(Spec((len(arrays), 2), np.result_type(*(a.dtype for a in arrays.values())).name))

    def compute() -> None:
        for row, array in enumerate(arrays.values()):
            extremes[row, 0] = backend.xp.min(array)  # both are NaN where an element is
            extremes[row, 1] = backend.xp.max(array)

    backend.enqueue("extremes of the states", compute)
    is_finite = np.isfinite(np.asarray(backend.to_numpy(extremes))).all(axis=1)
    return [name for name, finite in zip(arrays, is_finite, strict=True) if not finite]


def warn_of_loaded(variables: Variables, path: str, *, slots: bool) -> None:
    """Warn of values read from a file that are not finite. slots: whether the optimizer's state is read too."""
    names = [n for n in non_finite_states(variables) if slots or not n.startswith(SLOT_PREFIX)]
    if names:
        warn_user(f"{path} holds values that are not finite: {describe_states(variables, names)}", RuntimeWarning)


def describe_states(variables: Variables, names: Sequence[str]) -> str:
    """The arrays in words, with the number of their elements that are not finite."""
    parts = [_describe(name, np.asarray(variables.borrow(name))) for name in names[:MAX_NAMES_SHOWN]]
    more = len(names) - MAX_NAMES_SHOWN
    return ", ".join(parts) + (f" and {more} more arrays" if more > 0 else "")


def _describe(name: str, array: np.ndarray) -> str:
    kinds = [k for k, test in (("nan", np.isnan), ("inf", np.isposinf), ("-inf", np.isneginf)) if test(array).any()]
    count = int((~np.isfinite(array)).sum())
    return f"{_describe_name(name)} ({count:,} of {array.size:,} elements: {' and '.join(kinds)})"


def describe_names(names: Sequence[str]) -> str:
    """The arrays in words; "" for none."""
    more = len(names) - MAX_NAMES_SHOWN
    return ", ".join(map(_describe_name, names[:MAX_NAMES_SHOWN])) + (f" and {more} more arrays" if more > 0 else "")


def _describe_name(name: str) -> str:
    if not name.startswith(SLOT_PREFIX):
        return f"the weight {name!r}"
    weight, slot = name.removeprefix(SLOT_PREFIX).rsplit(":", 1)
    return f"the optimizer's {slot!r} of {weight!r}"
