"""Which functions and classes are the user's own: a trace looks at what these read, and takes those of installed
packages and of Python's library as they are."""

from __future__ import annotations

import dis
import os
import sys
import types
from functools import cache
from typing import Any

__all__ = ["is_own_code", "used_names"]

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


def used_names(bytecode: types.CodeType) -> tuple[list[str], list[str]]:
    """The names of globals, and those of attributes and globals, that a function and the functions inside it use."""
    names: dict[str, None] = {}
    global_names: dict[str, None] = {}
    waiting: list[Any] = [bytecode]
    for part in waiting:
        names.update(dict.fromkeys(part.co_names))
        global_names.update((i.argval, None) for i in dis.get_instructions(part) if i.opname.endswith("_GLOBAL"))
        waiting += [c for c in part.co_consts if isinstance(c, types.CodeType)]
    return list(global_names), list(names)
