"""The base class of constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from prototorch.schema import Block
from prototorch.schema.overrides import CONFIG_METHODS


class Constraint(Block, family="constraint"):
    """A set to which a weight is restricted: it is projected onto the set after each update."""

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(("call", "__call__"), "define `project(self, weight)`, the projected weight in ops"),
    }

    @property
    def is_bounded(self) -> bool:
        """Whether it makes finite weights of moderate ones: known of the constraints here."""
        return type(self).__module__.startswith("prototorch.constraints")

    def project(self, weight: Any) -> Any:
        """The projection of the weight onto the set, expressed in ops."""
        raise TypeError(f"{type(self).__name__} does not define project")
