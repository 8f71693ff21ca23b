"""What the files of the package declare for the index, read from their source by `ast`.

* ``class Layer(Block, family="layer")`` begins a family; a class below it, at the top of a module, is an entry of the
  kind "layer", unless it is abstract (``abstract=True`` or a leading underscore). Its ``aliases`` and, of a layer, its
  ``symbolic_function`` must be literals.
* ``class WeightFormat(Extension)`` begins a kind of extension; ``FORMAT = WeightFormat(...)`` at the top of a module is
  an entry of the kind "WeightFormat".
* A file of the folder ``cli/commands`` with a function ``command`` is an entry of the kind "command".
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from prototorch.base import index
from prototorch.base.index import COMMANDS, PACKAGE, Extension, Table, is_newer_than_table, module_name

__all__ = ["read_file", "read_package"]

_EXTENSION = f"{Extension.__module__}.{Extension.__name__}"


class ClassFacts(NamedTuple):
    """A class statement. bases: full names. family: that it begins. aliases: None where they are no literal.
    symbolic_function: of a layer, the function of symbolic tensors that it is."""

    bases: tuple[str, ...]
    family: str | None
    is_abstract: bool
    aliases: tuple[str, ...] | None
    symbolic_function: str


class ModuleFacts(NamedTuple):
    """The top of a module. imports: full names by local ones. calls: of names, what is called, with the literal
    arguments. command_help: the first paragraph of the docstring of a function ``command``."""

    classes: dict[str, ClassFacts]
    imports: dict[str, str]
    calls: dict[str, tuple[str, dict[str, Any]]]
    command_help: str | None


def read_package() -> Table:
    """What all files of the package declare. Raises ValueError for aliases of a member of a family that are no literal,
    and for two members of one name."""
    entries: dict[str, dict[str, dict[str, tuple[tuple[str, Mapping[str, Any]], ...]]]] = {}
    bases: dict[str, dict[str, str]] = {}
    for folder, stem in sorted(_package_files()):
        for kind, name, facts in read_file(folder, stem):
            files = entries.setdefault(kind, {}).setdefault(folder, {})
            files[stem] = (*files.get(stem, ()), (name, facts))
        module = module_name(folder, stem)
        for name, one in _read_module(module).classes.items():
            kind_of_class = _kind_of(module, name, use_table=False)
            if kind_of_class is not None and (one.is_abstract or one.family or _EXTENSION in one.bases):
                bases.setdefault(module, {})[name] = kind_of_class
    folders = {folder for by_folder in entries.values() for folder in by_folder}
    files_in = {
        folder: tuple(sorted(stem for where, stem in _package_files() if where == folder)) for folder in sorted(folders)
    }
    return Table(entries, bases, files_in)


def read_file(folder: str, stem: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The entries of a file, by its folder in the package and its stem: kind, name, facts. Raises as `read_package`."""
    module = module_name(folder, stem)
    facts = _read_module(module)
    if folder == COMMANDS and facts.command_help is not None:
        yield "command", stem, {"help": facts.command_help}
    for name, one in facts.classes.items():
        kind = None if one.is_abstract or one.family else _kind_of(module, name)
        if kind is not None and not _is_extension(kind):
            if one.aliases is None:
                raise ValueError(f"{module}.{name}: its aliases must be a tuple of strings, written there")
            stated = {"aliases": one.aliases, "symbolic_function": one.symbolic_function}
            yield kind, name, {fact: value for fact, value in stated.items() if value}
    for name, (constructor, arguments) in facts.calls.items():
        kind = _kind_of(*_split(constructor))
        if kind is not None and _is_extension(kind):
            yield kind, name, arguments


def _is_extension(kind: str) -> bool:
    """Whether a kind is that of extensions, which bears the name of a class, and not a family's."""
    return kind[0].isupper()


def _kind_of(module: str, name: str, use_table: bool = True) -> str | None:
    """The family or the kind of extension that a class belongs to; None for another class."""
    path = _path_of(module)
    if path is None:
        return None
    if use_table and _has_table() and not is_newer_than_table(path):
        kinds_of_module = index.table().bases.get(module, {})
        if name in kinds_of_module:
            return kinds_of_module[name]
    facts = _read_module(module)
    if name not in facts.classes:
        return _kind_of(*_split(facts.imports[name]), use_table) if name in facts.imports else None
    one = facts.classes[name]
    if one.family is not None or _EXTENSION in one.bases:
        return one.family or name
    kinds = (_kind_of(*_split(base), use_table) for base in one.bases)
    return next((kind for kind in kinds if kind is not None), None)


def _has_table() -> bool:
    return os.path.isfile(os.path.join(PACKAGE, "base", "index_table.py"))


def _split(full_name: str) -> tuple[str, str]:
    module, _, name = full_name.rpartition(".")
    return module, name


def _package_files() -> Iterator[tuple[str, str]]:
    """Folder and stem of each file of the package."""
    for root, _, names in os.walk(PACKAGE):
        folder = os.path.relpath(root, PACKAGE).replace(os.sep, "/")
        yield from ((folder, name.removesuffix(".py")) for name in names if name.endswith(".py"))


def _path_of(module: str) -> str | None:
    """The file of a module of the package; None for another module."""
    first, *parts = module.split(".")
    if first != "prototorch":
        return None
    path = os.path.join(PACKAGE, *parts)
    path = os.path.join(path, "__init__.py") if os.path.isdir(path) else f"{path}.py"
    return path if os.path.isfile(path) else None


@cache
def _read_module(module: str) -> ModuleFacts:
    """The facts of a module of the package."""
    path = _path_of(module)
    assert path is not None
    with open(path, "rb") as file:
        body = ast.parse(file.read()).body
    imports = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in body
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }
    statements = [node for node in body if isinstance(node, ast.ClassDef)]
    names = imports | {node.name: f"{module}.{node.name}" for node in statements}
    calls = {
        target.id: (names[node.value.func.id], _literals(node.value.keywords))
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name) and node.value.func.id in names
    }
    commands = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == "command")
    help_text = next(((ast.get_docstring(node) or "").partition("\n\n")[0] for node in commands), None)
    return ModuleFacts({node.name: _read_class(node, names) for node in statements}, imports, calls, help_text)


def _read_class(node: ast.ClassDef, names: Mapping[str, str]) -> ClassFacts:
    keywords = _literals(node.keywords)
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    aliases: tuple[str, ...] | None = ()
    symbolic_function = ""
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if not isinstance(value, ast.expr):
            continue
        for target in targets:
            if isinstance(target, ast.Name) and target.id == "aliases":
                aliases = _literal_strings(value)
            elif isinstance(target, ast.Name) and target.id == "symbolic_function":
                symbolic_function = ast.literal_eval(value)
            elif isinstance(target, ast.Tuple) and any(ast.unparse(name) == "aliases" for name in target.elts):
                aliases = None
    return ClassFacts(
        bases=tuple(names.get(base.id, base.id) for base in bases if isinstance(base, ast.Name)),
        family=keywords.get("family"),
        is_abstract=bool(keywords.get("abstract")) or node.name.startswith("_"),
        aliases=aliases,
        symbolic_function=symbolic_function,
    )


def _literal_strings(value: ast.expr) -> tuple[str, ...] | None:
    try:
        strings = ast.literal_eval(value)
    except ValueError:
        return None
    return tuple(strings) if isinstance(strings, tuple | list) else None


def _literals(keywords: Iterable[ast.keyword]) -> dict[str, Any]:
    """The arguments that are literals, by name."""
    values = {}
    for keyword in keywords:
        try:
            values[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except ValueError:
            continue
    return values
