"""Names: words that are no identifiers (words.txt), and one meaning for each public class name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "prototorch"

#: Folders and modules that are being rewritten: their local names and docstrings follow afterwards.
REWRITTEN: tuple[str, ...] = (
    "prototorch/interop/",
    "prototorch/data/",
    "prototorch/cli/",
    "prototorch/base/index",
    "prototorch/train/data_adapter.py",
    "prototorch/train/dataset_binding.py",
    "prototorch/train/text_inputs.py",
    "prototorch/train/batch_source.py",
    "prototorch/model/prediction.py",
    "prototorch/model/fit_preconditions.py",
    "prototorch/model/load.py",
)

#: Names of this list's words that somebody else has fixed: NumPy, Keras, PyTorch, Python or the model language.
EXEMPT = {
    "built": "keras.Model",
    "detached": "torch.Tensor",
    "sorted": "torch.topk, built-in",
    "reversed": "built-in",
}

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


def _words() -> set[str]:
    lines = (Path(__file__).with_name("words.txt")).read_text(encoding="utf-8").splitlines()
    return {word for line in lines if not line.startswith("#") for word in line.split()}


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


def test_the_list_of_words_is_sorted_and_has_no_word_twice():
    for section in (Path(__file__).with_name("words.txt")).read_text(encoding="utf-8").split("\n\n"):
        words = " ".join(line for line in section.splitlines() if not line.startswith("#")).split()
        assert words == sorted(set(words))


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
