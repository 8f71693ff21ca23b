"""The index of the package: which module defines a name, known without importing any.

Presence is registration: a class of a family (`Layer`, `Loss`, ...), a command or an extension (a file format, a
dialect, ...) is found because its file is there. What the files declare is kept in a generated module,
`prototorch.base.index_table`; a module is imported when one of its names is asked for.

In a source tree the table is compared with the files: what is newer than the table, or not in it, is read from the
source in memory by `prototorch.base.index_reader`, and nothing is written. ``python -m tests.index`` writes the table
anew, and a test compares them. An installed package trusts its table.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = [
    "COMMANDS",
    "PACKAGE",
    "Entry",
    "Extension",
    "Table",
    "commands",
    "entries",
    "load_extensions",
    "member_names",
    "table",
]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = "cli/commands"  # the folder of the commands
#: seconds in which a checkout or an installation writes all files: a file is newer than the table if it is by more
WRITING_TIME = 60.0


class Extension:
    """The base of a class whose instances, named at the top of modules, are found by `load_extensions`."""


class Entry(NamedTuple):
    """A name that a module declares.

    facts: the ``aliases`` and the ``symbolic_function`` of a class; the ``help`` of a command; of an extension the
    arguments that are literals and given by keyword.
    """

    name: str
    module: str
    facts: Mapping[str, Any]

    def load(self) -> Any:
        """The object of this name. Raises AttributeError where the module does not have it (any more)."""
        return getattr(importlib.import_module(self.module), self.name)


#: the stem of a file -> its entries of one kind: names with their facts
Files = Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]]


class Table(NamedTuple):
    """What the files of the package declare.

    entries: by kind, folder and file. bases: by module, the kinds of its classes that are roots or abstract. files: the
    names of all files in each folder that has entries.
    """

    entries: Mapping[str, Mapping[str, Files]]
    bases: Mapping[str, Mapping[str, str]]
    files: Mapping[str, tuple[str, ...]]


@cache
def entries(kind: str) -> tuple[Entry, ...]:
    """The entries of a kind, in the order of their modules' names: of a family by its name ("layer"), of extensions by
    the name of their class, "command"."""
    folders = dict(table().entries.get(kind, {}))
    if _is_source_tree():
        folders = {folder: _update_folder(kind, folder, files) for folder, files in folders.items()}
    return tuple(
        Entry(name, module_name(folder, stem), facts)
        for folder, files in sorted(folders.items())
        for stem, declared in sorted(files.items())
        for name, facts in declared
    )


def commands() -> dict[str, Entry]:
    """The commands by name; the fact ``help`` is the first paragraph of their help."""
    return {entry.name: entry for entry in entries("command")}


def member_names() -> list[str]:
    """The names of the members of all families: layers, losses, optimizers, ..."""
    families = [kind for kind in table().entries if kind.islower() and kind != "command"]
    return [entry.name for family in families for entry in entries(family)]


def load_extensions(kind: type[Extension]) -> list[Any]:
    """All extensions of a kind, in the order of their modules' names."""
    return [entry.load() for entry in entries(kind.__name__)]


@cache
def table() -> Table:
    """The generated table; where there is none, what the files declare now."""
    try:
        module = importlib.import_module("prototorch.base.index_table")
    except ImportError:
        return _reader().read_package()
    return Table(module.ENTRIES, module.BASES, module.FILES)


def is_newer_than_table(path: str) -> bool:
    """Whether a file has been changed since the table was written."""
    return os.stat(path).st_mtime > _table_time() + WRITING_TIME


def module_name(folder: str, stem: str) -> str:
    """The full name of a module by its folder in the package ("." for the package itself) and its file's stem."""
    parts = ["prototorch", *(() if folder == "." else folder.split("/")), *(() if stem == "__init__" else (stem,))]
    return ".".join(parts)


@cache
def _table_time() -> float:
    """Seconds since the epoch."""
    try:
        return os.stat(os.path.join(PACKAGE, "base", "index_table.py")).st_mtime
    except OSError:
        return float("inf")  # what was read from the files is up to date


@cache
def _is_source_tree() -> bool:
    return os.path.isfile(os.path.join(os.path.dirname(PACKAGE), "pyproject.toml"))


def _update_folder(kind: str, folder: str, files: Files) -> Files:
    """The entries of a folder, where files that are newer than the table, or not in it, are read anew."""
    folder_entries = table().files[folder]
    path = os.path.join(PACKAGE, *folder.split("/"))
    present = {name.removesuffix(".py") for name in os.listdir(path) if name.endswith(".py")}
    result = {stem: declared for stem, declared in files.items() if stem in present}
    for stem in present:
        if stem not in folder_entries or is_newer_than_table(os.path.join(path, f"{stem}.py")):
            declared = tuple((name, facts) for one, name, facts in _reader().read_file(folder, stem) if one == kind)
            result.pop(stem, None)
            if declared:
                result[stem] = declared
    return MappingProxyType(result)


def _reader() -> Any:
    return importlib.import_module("prototorch.base.index_reader")
