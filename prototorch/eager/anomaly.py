"""Anomaly mode: errors of the backward pass name the op, and where it was called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.errors import GradientError

__all__ = ["check_gradients", "explain_error"]


def _origin(entry: Any) -> str:
    extras = entry.extras
    if extras is None or extras.traceback is None:
        return "it was called before anomaly mode was on, so that the place of the call is unknown"
    return f"it was called at\n{extras.traceback}"


def explain_error(entry: Any, error: Exception) -> None:
    """Note at an error of an op's gradient where the op was called."""
    error.add_note(f"the error is in the gradient of {entry.name()}; {_origin(entry)}")


def check_gradients(entry: Any, gradients: Sequence[Any]) -> None:
    """Raises GradientError for a gradient with elements that are not numbers."""
    for k, g in enumerate(gradients):
        if g is not None and g.spec.is_float and np.isnan(np.asarray(g.numpy(), dtype=np.float64)).any():
            raise GradientError(
                f"{entry.name()} returned nan values in the gradient of its input {k}, of shape {list(g.shape)}; "
                f"{_origin(entry)}"
            )
