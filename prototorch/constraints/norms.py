"""Constraints on the sign and the norm of a weight (Keras' definitions)."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.constraints.base import Constraint
from prototorch.errors import ShapeError
from prototorch.schema import field

_EPSILON = 1e-7  # Keras' epsilon: keeps the division by a norm of 0 finite


def _norm(weight: Any, axis: tuple[int, ...]) -> Any:
    if any(not -weight.ndim <= a < weight.ndim for a in axis):
        raise ShapeError(f"axis {list(axis)} is out of range for a weight of shape {list(weight.shape)}")
    return ops.sqrt(ops.sum(ops.square(weight), axis=axis, keepdims=True))


class NonNeg(Constraint):
    """Negative elements become 0."""

    aliases = ("non_negative",)

    def project(self, weight: Any) -> Any:
        return ops.maximum(weight, 0.0)


class MaxNorm(Constraint):
    """Norms along ``axis`` are at most ``max_value``."""

    max_value: float = field(default=2.0, min=0)
    axis: tuple[int, ...] = field(default=(0,), doc="The axes of one unit's incoming weights; 0 for Dense.")

    def project(self, weight: Any) -> Any:
        norm = _norm(weight, self.axis)
        return weight * (ops.clip(norm, 0.0, self.max_value) / (norm + _EPSILON))


class UnitNorm(Constraint):
    """Norms along ``axis`` are 1."""

    axis: tuple[int, ...] = field(default=(0,), doc="The axes of one unit's incoming weights; 0 for Dense.")

    def project(self, weight: Any) -> Any:
        return weight / (_norm(weight, self.axis) + _EPSILON)


class MinMaxNorm(Constraint):
    """Norms along ``axis`` lie between two numbers; ``rate`` is how strictly (1 exactly)."""

    min_value: float = field(default=0.0, min=0)
    max_value: float = field(default=1.0, min=0)
    rate: float = field(default=1.0, min=0, max=1)
    axis: tuple[int, ...] = field(default=(0,), doc="The axes of one unit's incoming weights; 0 for Dense.")

    def project(self, weight: Any) -> Any:
        norm = _norm(weight, self.axis)
        target = ops.clip(norm, self.min_value, self.max_value) * self.rate + norm * (1 - self.rate)
        return weight * (target / (norm + _EPSILON))
