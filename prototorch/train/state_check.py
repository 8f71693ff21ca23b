"""The check of what training changes: weights, running statistics, moving averages and the optimizer's state.

A step checks its loss and its gradients before it changes anything (`gradient_check`). What overflows in the update
itself (a learning rate that is too large, a squared gradient) is found here: every `INTERVAL` steps, at the end of an
epoch, and before a file is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.devices import backend_for
from prototorch.errors import warn_user
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX, Variables

__all__ = ["INTERVAL", "describe_states", "non_finite_states", "warn_of_loaded"]

INTERVAL = 64  # steps between two checks: the arrays are read twice for each
MAX_NAMES_SHOWN = 4


def non_finite_states(variables: Variables, backend: Backend) -> list[str]:
    """The names of the float arrays, totals of metrics left out, that hold a value that is not finite."""
    arrays = {name: a for name, a in variables.current_arrays() if a.dtype.kind == "f" and a.size}
    names = [name for name in arrays if not name.startswith(METRIC_PREFIX)]
    if not names:
        return []
    xp = backend.xp
    with backend.run_context():
        extremes = [f(arrays[name]) for name in names for f in (xp.min, xp.max)]  # both are NaN where an element is
        values = np.asarray(backend.to_numpy(xp.stack(extremes))).reshape(-1, 2)
    return [name for name, is_finite in zip(names, np.isfinite(values).all(axis=1), strict=True) if not is_finite]


def warn_of_loaded(variables: Variables, path: str, *, slots: bool) -> None:
    """Warn of values read from a file that are not finite. slots: whether the optimizer's state is read too."""
    names = [n for n in non_finite_states(variables, backend_for("cpu")) if slots or not n.startswith(SLOT_PREFIX)]
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
    what = f"the weight {name!r}"
    if name.startswith(SLOT_PREFIX):
        weight, slot = name.removeprefix(SLOT_PREFIX).rsplit(":", 1)
        what = f"the optimizer's {slot!r} of {weight!r}"
    return f"{what} ({count:,} of {array.size:,} elements: {' and '.join(kinds)})"
