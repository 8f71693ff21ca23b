"""The base class of constraints."""

from __future__ import annotations

from typing import Any

from prototorch.schema import Block


class Constraint(Block, family="constraint"):
    """A set to which a weight is restricted: it is projected onto the set after each update."""

    def project(self, weight: Any) -> Any:
        """The projection of the weight onto the set, expressed in ops."""
        raise TypeError(f"{type(self).__name__} does not define project")
