"""Docstrings: what they name exists, and they say more than the name below which they stand."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "prototorch"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
CLASSES = {node.name: node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

#: ``Raises A, module.B and C``, ``Raise A``, ``Raises an A``
_EXCEPTION = r"`*((?:[a-z_]\w*\.)*_?[A-Z]\w*)`*"
_RAISES = re.compile(rf"\bRaises? (?:an? |the )?{_EXCEPTION}(?:(?:, and |, or |, | and | or ){_EXCEPTION})*")
_ERROR = re.compile(r"((?:[a-z_]\w*\.)*\b_?[A-Z]\w*(?:Error|Warning|Exception))\b")
#: words that say nothing by themselves, beside those of the name
_EMPTY = (
    "a an the all and are as be each for in is it its of one or that them these this to with "
    "argument field input json output result shape size value window"
)
#: ``name: text`` and ``name, other: text``, at the beginning of a line or a sentence
_PARAMETERS = re.compile(r"(\*{0,2}[a-z_]\w*(?:(?:,| and) \*{0,2}[a-z_]\w*)*): (?=\S)")


def _docstrings() -> Iterator[tuple[str, Documented, str]]:
    """Place, node and cleaned docstring of every module, class and function of the package that has one."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, Documented) and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node, text


def exceptions_named(text: str) -> set[str]:
    """The names in a docstring that stand for exceptions: those after "Raises", and those that end like one."""
    line = " ".join(text.split())
    named = {name for match in _RAISES.finditer(line) for name in re.findall(_EXCEPTION, match[0].split(" ", 1)[1])}
    return named | set(_ERROR.findall(line))


def _exception_exists(name: str) -> bool:
    """Whether it is an exception of Python, of the package, or, with the name of its module, of another library."""
    module, _, name = name.rpartition(".")
    if module:
        value = getattr(importlib.import_module(module), name, None)
        return isinstance(value, type) and issubclass(value, BaseException)
    value = getattr(builtins, name, None)
    if isinstance(value, type):
        return issubclass(value, BaseException)
    bases = [ast.unparse(base) for base in CLASSES[name].bases] if name in CLASSES else []
    return any(_exception_exists(base.rpartition(".")[2]) for base in bases)


def parameters_named(text: str) -> list[str]:
    """The parameters that a docstring documents: in its section ``Args:``, or as ``name: what it is`` at the beginning
    of a sentence."""
    names: list[str] = []
    section, previous = "", ""
    for line in text.splitlines():
        if header := re.fullmatch(r"(Args|Raises|Returns|Yields):", line):
            section = header[1]
        elif section and line and not line.startswith(" "):
            section = ""
        is_entry = re.match(r"    \S", line) if section == "Args" else not section and not line.startswith(" ")
        if is_entry:
            begins = not previous or previous[-1] in ".:;" or section == "Args"
            starts = [0] if begins and not header else []
            starts += [match.end() for match in re.finditer(r"\. ", line)] if not section else []
            stripped = line.strip() if section == "Args" else line
            for match in filter(None, (_PARAMETERS.match(stripped, start) for start in starts)):
                names += [name.strip("* ") for name in re.split(r",| and ", match[1])]
        previous = line.rstrip()
    return names


def _parameters(node: Documented) -> set[str]:
    """The parameters of a function; of a class, those of its methods, its fields, and those of its bases."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        a = node.args
        return {x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if x is not None}
    names: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            names |= {inner.name, *_parameters(inner)}
        elif isinstance(inner, ast.Attribute | ast.Name) and isinstance(inner.ctx, ast.Store):
            names.add(inner.attr if isinstance(inner, ast.Attribute) else inner.id)
    if isinstance(node, ast.ClassDef):
        bases = (ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases)
        names |= {name for base in bases if base in CLASSES for name in _parameters(CLASSES[base])}
    return names


def test_every_exception_that_a_docstring_names_exists():
    named = [(place, name) for place, _, text in _docstrings() for name in sorted(exceptions_named(text))]
    assert [f"{place}: {name}" for place, name in named if not _exception_exists(name)] == []


def test_every_parameter_that_a_docstring_documents_exists():
    missing = []
    for place, node, text in _docstrings():
        if not isinstance(node, ast.Module):
            missing += [f"{place}: {node.name}: {name}" for name in {*parameters_named(text)} - _parameters(node)]
    assert missing == []


def _stem(word: str) -> str:
    return next((word.removesuffix(end) for end in ("es", "s", "ed") if word.endswith(end) and len(word) > 4), word)


def says_nothing(name: str, text: str) -> bool:
    """Whether a docstring repeats the name that it stands below, and no more. One with a formula, a shape or a
    reference says something."""
    if re.search(r"[`=(+*/|<>^0-9\[-]", text):
        return False
    parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return {_stem(word) for word in re.findall(r"[a-z]+", text.lower())} <= {
        _stem(w) for w in {*parts, *_EMPTY.split()}
    }


def test_a_docstring_says_more_than_the_name():
    empty = [
        f"{place}: {node.name}: {text}"
        for place, node, text in _docstrings()
        if not isinstance(node, ast.Module) and says_nothing(node.name, text)
    ]
    assert empty == []


def test_what_says_nothing():
    assert says_nothing("forward", "The outputs, of the shape of the inputs.")
    assert says_nothing("InputSpecs", "The specs of the inputs.")
    assert not says_nothing("forward", "[batch, channels] to the same shape.")
    assert not says_nothing("num_nodes", "The number of nodes.")


def test_what_counts_as_a_parameter_and_an_exception():
    """The forms of this package's docstrings."""
    text = "Join. axis: of it.\n\nArgs:\n    x, *rest: arrays.\n        More: of it.\n\nkeep: one; see: below\nis: no"
    assert parameters_named(text) == ["axis", "x", "rest", "keep"]
    text = "Raises Wrong and numpy.linalg.LinAlgError; PyTorch has a RuntimeError"
    assert exceptions_named(text) == {"Wrong", "numpy.linalg.LinAlgError", "RuntimeError"}
    assert _exception_exists("numpy.linalg.LinAlgError")
    assert not _exception_exists("Unsupported")
    assert not _exception_exists("Layer")
