"""Python modules that a file names: the one place that imports them, and only where the reader of the file allows it.

A text of ours names modules by ``import: "my_layers"``, a net of Caffe by its Python layers. Nothing in a file allows
it: `allow_python` is entered by ``load_model(..., allow_python=True)`` and ``--allow-python`` alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType

from prototorch.base.index import Extension, load_extensions
from prototorch.base.terminal import escape_line
from prototorch.errors import UsageError
from prototorch.schema.block import Block
from prototorch.schema.family import record_imports

__all__ = [
    "HOW_TO_ALLOW", "ClassAdapter", "allow_python", "check_module_name", "import_python_module",
    "is_python_allowed", "module_location", "register_layers",
]  # fmt: skip

HOW_TO_ALLOW = (
    "A file is not trusted to run code: where this one is, allow it, by --allow-python on the command line or "
    "load_model(..., allow_python=True)"
)
_MODULE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,15}")
_MAX_NAME_LENGTH = 200
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

_allowed: ContextVar[bool] = ContextVar("prototorch_allow_python", default=False)


@dataclass(frozen=True)
class ClassAdapter(Extension):
    """Subclasses of ``base`` that a text brings become blocks: ``make(cls)`` is the block of one."""

    base: type
    make: Callable[[type], type[Block]]


@contextmanager
def allow_python(allowed: bool = True) -> Iterator[None]:
    """Inside, texts that are read may import the Python modules that they name. False changes nothing."""
    token = _allowed.set(allowed or _allowed.get())
    try:
        yield
    finally:
        _allowed.reset(token)


def is_python_allowed() -> bool:
    """Whether a text that is read here may import Python modules."""
    return _allowed.get()


def check_module_name(name: str) -> None:
    """Raise UsageError for a string that is not the name of a Python module."""
    if len(name) > _MAX_NAME_LENGTH or not _MODULE_NAME.fullmatch(name) or name.endswith(".py"):
        shown_name = escape_line(name[:60])
        hint = ""
        if name.endswith(".py"):
            hint = f" Write {escape_line(os.path.basename(name)[:-3][:60])!r}, without .py and without a folder."
        raise UsageError(f'{shown_name!r} is not the name of a Python module, such as "my_layers".{hint}')


def import_python_module(name: str, folders: Sequence[str] = ()) -> ModuleType:
    """Import a module: from the first folder that holds it, else as ``import`` does, from ``sys.path``.

    Its code runs, so the caller has asked `is_python_allowed`, or what stands for it. While it runs, nothing that it
    reads may import in turn without being allowed anew. Raises UsageError where there is no such module, where another
    file of that name is imported already, and where its code fails, with the line.
    """
    check_module_name(name)
    folder = next((folder for folder in map(os.path.realpath, folders) if _holds(folder, name)), None)
    loaded = sys.modules.get(name)
    if folder is not None and loaded is not None and not _is_within(loaded, folder):
        raise UsageError(
            f"the module {name!r} of {escape_line(folder)} cannot be imported: this process has imported another one "
            f"of that name, {escape_line(_file_of(loaded))}. Give one of them another name"
        )
    path = [] if folder is None else [folder]
    importlib.invalidate_caches()
    token = _allowed.set(False)
    sys.path[:0] = path
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            where = ", ".join([*(escape_line(f) for f in dict.fromkeys(folders)), "sys.path (PYTHONPATH)"])
            raise UsageError(
                f"the module {name!r} cannot be imported: there is none; it is looked for in {where}"
            ) from None
        raise UsageError(f"the module {name!r} cannot be imported: {_describe(error)}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"the module {name!r} cannot be imported: {_describe(error)}") from error
    finally:
        for entry in path:
            if entry in sys.path:
                sys.path.remove(entry)
        _allowed.reset(token)


def module_location(name: str, folders: Sequence[str]) -> str | None:
    """The file in one of the folders that `import_python_module` would run; None where it would search ``sys.path``."""
    for folder in map(os.path.realpath, folders):
        if _holds(folder, name):
            base = os.path.join(folder, *name.split("."))
            return base + ".py" if os.path.isfile(base + ".py") else os.path.join(base, "__init__.py")
    return None


def register_layers(module: ModuleType, name: str) -> list[type[Block]]:
    """The blocks (layers, losses, ...) that a module defines, which texts may name from now on.

    Other classes become layers of their names by their adapters. Raises UsageError for a module that defines none.
    """
    blocks: list[type[Block]] = []
    for value in list(vars(module).values()):
        if not isinstance(value, type) or _is_part(value.__module__, "prototorch"):
            continue
        adapter = next((one for one in load_extensions(ClassAdapter) if issubclass(value, one.base)), None)
        if issubclass(value, Block):
            if value.family_registry is not None and not value.abstract:
                blocks.append(value)
        elif adapter is not None and not value.__name__.startswith("_"):
            blocks.append(adapter.make(value))
    if not blocks:
        raise UsageError(
            f"the module {name!r} ({escape_line(_file_of(module))}) defines no subclass of Layer, Module or Function "
            "(nor a loss, metric, ...): is it the right one?"
        )
    record_imports((module.__name__, *(block.__module__ for block in blocks)), name)
    return blocks


def _holds(folder: str, name: str) -> bool:
    base = os.path.join(folder, *name.split("."))
    return os.path.isfile(base + ".py") or os.path.isfile(os.path.join(base, "__init__.py"))


def _file_of(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or f"a module without a file ({module.__name__})"


def _is_within(module: ModuleType, folder: str) -> bool:
    return os.path.realpath(_file_of(module)).startswith(os.path.join(folder, ""))


def _is_part(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _describe(error: BaseException) -> str:
    """An exception in one line, with the line of the code that raised it."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    if isinstance(error, SyntaxError):
        return escape_line(
            text if (error.filename or "") in text else f"{text} ({error.filename}, line {error.lineno})"
        )
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    own = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    return escape_line(f"{text} ({own[-1].filename}, line {own[-1].lineno})" if own else text)
