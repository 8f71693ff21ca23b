"""Names: words that are no identifiers (words.txt), and one meaning for each public class name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "prototorch"

#: Names of this list's words that somebody else has fixed: NumPy, Keras, PyTorch, Python or the model language.
EXEMPT = {
    "built": "keras.Model",
    "detached": "torch.Tensor",
    "sorted": "torch.topk, built-in",
    "reversed": "built-in",
}

#: Words of the list that a local variable may be called, for they are nouns, too: a bound and a cut are numbers, DONE
#: is a field of the thread pool's memory.
LOCAL_NOUNS = {"bound", "cut", "done"}

#: Public class names that have two meanings on purpose: a layer, loss or metric bears Keras' name, an op its own class,
#: a module of PyTorch's face PyTorch's name.
#: Each row: the packages that may define the same name.
TWICE = [
    {"ops", "layers"},
    {"losses", "metrics"},
    {"ops", "initializers"},
    {"graph", "caffe"},
    {"layers", "caffe"},
    {"eager", "caffe"},
    {"data", "utils"},
    {"optimizers", "optim"},
    {"train", "optim"},
]


def _sections() -> list[list[str]]:
    """The words of each section of words.txt: participles, adjectives, metaphors."""
    text = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
    return [
        " ".join(line for line in section.splitlines() if not line.startswith("#")).split()
        for section in text.split("\n\n")
    ]


def _words() -> set[str]:
    return {word for section in _sections() for word in section}


def _identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each function, class, parameter, field, attribute and module-level name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
            arguments = node.args
            for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                yield argument.lineno, argument.arg
        elif isinstance(node, ast.ClassDef):
            yield node.lineno, node.name
            yield from _targets(node.body)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
    yield from _targets(tree.body)


def _targets(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield statement.lineno, target.id


def used_words(words: set[str]) -> dict[str, list[str]]:
    """Where each of these words is an identifier of the package: word -> places."""
    used = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, name in _identifiers(ast.parse(path.read_text(encoding="utf-8"))):
            word = name.strip("_").lower()
            if word in words and word not in EXEMPT:
                used[word].append(f"{path.relative_to(ROOT)}:{line}: {name}")
    return used


def test_words_that_are_no_identifiers():
    """Bare participles, adjectives and private metaphors: a name says what it holds or does (docs/style.md)."""
    assert used_words(_words()) == {}


def local_names(words: set[str]) -> list[str]:
    """Where each of these words is the name of a local variable."""
    rows = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            if is_stored and node.id.strip("_").lower() in words:
                rows.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.id}")
    return rows


def test_local_names_say_what_they_hold():
    """A participle alone does not; `ours` and `theirs` stay where one function holds two systems side by side."""
    assert local_names(set(_sections()[0]) - EXEMPT.keys() - LOCAL_NOUNS) == []


def test_the_list_of_words_is_sorted_and_has_no_word_twice():
    for section in _sections():
        assert section == sorted(set(section))


def test_a_public_class_name_has_one_meaning():
    packages = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] == "nn":
            continue  # PyTorch has fixed these names
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                packages[node.name].append(path.relative_to(PACKAGE).parts[0])
    twice = {name: where for name, where in packages.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if len(where) > 2 or set(where) not in TWICE} == {}
