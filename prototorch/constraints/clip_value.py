"""A constraint on the elements of a weight."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.constraints.base import Constraint
from prototorch.schema import field


class ClipValue(Constraint):
    """Elements lie between ``min_value`` and ``max_value``: the weight clipping of Wasserstein GANs (Arjovsky et al.,
    2017)."""

    aliases = ("clip_value",)

    min_value: float = field(default=-0.01, doc="The smallest value.")
    max_value: float = field(default=0.01, doc="The largest value.")

    def check(self) -> None:
        if not self.min_value <= self.max_value:
            self.refuse(f"min_value {self.min_value:g} is above max_value {self.max_value:g}", "min_value")

    def project(self, weight: Any) -> Any:
        return ops.clip(weight, self.min_value, self.max_value)
