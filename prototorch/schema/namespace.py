"""Public namespaces, such as `prototorch.losses`: the members of a family, by name, with suggestions for misspelt ones.

A package of a family loads its own modules, whose classes register themselves:

    _NAMESPACE = Namespace(__name__, Loss)
    __all__ = _NAMESPACE.load(__path__)

and defines the module functions ``__getattr__`` and ``__dir__`` by `Namespace.get` and `Namespace.names`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable
from typing import Any

from prototorch.schema.block import Block
from prototorch.schema.suggest import suggest

__all__ = ["Namespace"]


class Namespace:
    """The names of a package that holds a family: its root class and the family's members.

    Args:
        package: the package's name.
        root: the root class of the family.
        moved: names that users may look for here, with where they are.
    """

    def __init__(self, package: str, root: type[Block], moved: dict[str, str] | None = None):
        self._package, self._root, self._moved = package, root, moved or {}

    def load(self, path: Iterable[str]) -> list[str]:
        """Import the package's own modules and set the members as its attributes; return its ``__all__``."""
        for info in pkgutil.iter_modules(path):
            importlib.import_module(f"{self._package}.{info.name}")
        vars(sys.modules[self._package]).update(self._root.members())
        return [self._root.__name__, *self.names()]

    def get(self, name: str) -> Any:
        """A member that was defined outside the package. Raises AttributeError with the nearest name."""
        member = self._root.members().get(name)
        if member is not None:
            return member
        if name in self._moved:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}. It is {self._moved[name]}.")
        raise AttributeError(f"module {self._package!r} has no attribute {name!r}.{suggest(name, self.names())}")

    def names(self) -> list[str]:
        """The names of all members, sorted."""
        return sorted(self._root.members())
