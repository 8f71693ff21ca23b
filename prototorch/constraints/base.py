"""The root of all constraints."""

from __future__ import annotations

from typing import Any

from prototorch.schema import Block


class Constraint(Block, family="constraint"):
    """Brings a weight back into a set."""

    def project(self, weight: Any) -> Any:
        """The nearest allowed weight, said in ops."""
        raise TypeError(f"{type(self).__name__} does not define project")
