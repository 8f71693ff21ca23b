"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from prototorch.base.index import entries
from prototorch.errors import did_you_mean, explain_word

__all__ = ["PublicNames"]


class PublicNames:
    """The public names of a package, each with the module that has it.

    A package has

        _NAMES = PublicNames(__name__, {"devices": "device_count is_available", "memory": "empty_cache"})
        __all__ = _NAMES.names()

    and the module functions ``__getattr__`` and ``__dir__`` by `get` and `names`.

    Args:
        package: the package's name.
        modules: the names by the module of the package that has them, with spaces between them; the name of a module is
            the module itself.
        missing: names of another system that are not here, with the reason.
        family: the kind (see `prototorch.base.index`) whose members in the package's own folder are names as well.
    """

    def __init__(
        self, package: str, modules: Mapping[str, str], missing: Mapping[str, str] | None = None, family: str = ""
    ):
        self._package, self._missing = package, missing or {}
        self._module_of = {name: module for module, names in modules.items() for name in names.split()}
        for entry in entries(family) if family else ():
            parent, _, module = entry.module.rpartition(".")
            if parent == package:
                self._module_of[entry.name] = module

    def get(self, name: str) -> Any:
        """The object of a name, which becomes an attribute of the package. Raises AttributeError with the nearest name,
        or the reason."""
        module = self._module_of.get(name)
        if module is None:
            reason = self._missing.get(name)
            if self._is_module(name):  # ``from package import module`` asks here first
                raise AttributeError(f"the module {self._package}.{name} has not been imported")
            word = f"{self._package.rpartition('.')[2]}.{name}"
            foreign = "" if reason else explain_word(word, in_module=True)
            hint = f": {reason}" if reason else foreign or f".{did_you_mean(name, self.names())}"
            raise AttributeError(f"{self._package}.{name} does not exist{hint}")
        value = importlib.import_module(f"{self._package}.{module}")
        if name != module:
            value = getattr(value, name)
        setattr(sys.modules[self._package], name, value)
        return value

    def _is_module(self, name: str) -> bool:
        """Whether the package's folder has a module or a package of this name."""
        path = os.path.join(sys.modules[self._package].__path__[0], name)
        return os.path.isfile(f"{path}.py") or os.path.isdir(path)

    def names(self) -> list[str]:
        """The public names, sorted."""
        return sorted(self._module_of)
