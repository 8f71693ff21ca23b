"""Which functions and classes are the user's own: a trace looks at what these read, and takes those of installed
packages and of Python's library as they are."""

from __future__ import annotations

import os
import sys
import types
from functools import cache
from typing import Any

__all__ = ["global_names", "is_own_code"]

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@cache
def is_own_code(module: str | None) -> bool:
    """Whether a module of this name is the user's: a script, a notebook, or a file that is not installed."""
    if module == "__main__":
        return True
    root = (module or "").partition(".")[0]
    if not root or root in sys.stdlib_module_names or root in ("prototorch", "numpy"):
        return False
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return not any(part in file for part in _INSTALLED)


def global_names(bytecode: types.CodeType) -> list[str]:
    """The names of globals and attributes that a function uses, with those of the functions inside it."""
    names: dict[str, None] = {}
    waiting: list[Any] = [bytecode]
    for part in waiting:
        names.update(dict.fromkeys(part.co_names))
        waiting += [c for c in part.co_consts if isinstance(c, types.CodeType)]
    return list(names)
