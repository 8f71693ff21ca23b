"""Public namespaces, such as `prototorch.losses`: the members of a family, by name, with suggestions for misspelt ones.

A package of a family has

    _NAMESPACE = Namespace(__name__, Loss)
    __all__ = _NAMESPACE.all_names()

and the module functions ``__getattr__`` and ``__dir__`` by `Namespace.get` and `Namespace.names`. A member's module is
imported when the member is asked for.
"""

from __future__ import annotations

import sys
from typing import Any

from prototorch.errors import explain_word
from prototorch.schema.block import Block
from prototorch.schema.suggest import suggest

__all__ = ["Namespace"]


class Namespace:
    """The names of a package that holds a family: its root class and the family's members.

    Args:
        package: the package's name.
        root: the root class of the family.
        moved: the root of another family whose members users may look for here, and the namespace where they are.
    """

    def __init__(self, package: str, root: type[Block], moved: tuple[type[Block], str] | None = None):
        self._package, self._root, self._moved = package, root, moved

    def all_names(self) -> list[str]:
        """The package's ``__all__``."""
        return [self._root.__name__, *self.names()]

    def get(self, name: str) -> Any:
        """A member of the family, which becomes an attribute of the package where it is the package's own.

        Raises AttributeError with the nearest name.
        """
        if name in self._root.member_names():
            member = self._root.lookup(name)
            if member.__module__.startswith("prototorch."):
                setattr(sys.modules[self._package], name, member)
            return member
        if self._moved is not None and name in self._moved[0].member_names():
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}. It is {self._moved[1]}.{name}.")
        hint = explain_word(f"{self._package.rpartition('.')[2]}.{name}") or f".{suggest(name, self.names())}"
        raise AttributeError(f"module {self._package!r} has no attribute {name!r}{hint}")

    def names(self) -> list[str]:
        """The names of all members, sorted."""
        return self._root.member_names()
