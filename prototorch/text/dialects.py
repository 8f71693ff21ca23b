"""Other languages of model texts that are read as they are: each a `TextDialect`, found by the index of the package."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.base.index import Extension, entries
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Document

__all__ = ["ForeignNet", "TextDialect", "find_dialect", "words_at_top_level"]

_TOKEN = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{}<>()\[\]]|[\w.$+-]+""")


@dataclass(frozen=True)
class ForeignNet:
    """The net of a text in another language.

    document: the net that predicts, in our language. match_weights: ``(path)`` -> which arrays of a weight file of the
    other system are which weights of it, with ``path`` and ``assign(weights)``, which writes them into the weights by
    name; None for a file of any other system. source: the net as its dialect knows it.
    """

    document: Document
    match_weights: Callable[[str], Any]
    source: Any


@dataclass(frozen=True)
class TextDialect(Extension):
    """A language of model texts beside ours.

    words: names, one of which each of its texts has at the top level; a text without them is none of its texts, so that
    the module of the dialect is not imported for it.
    """

    name: str
    words: tuple[str, ...]

    def recognize(self, text: str) -> str | None:
        """The kind of a text, which may have mistakes ("net", "solver"); None for a text of another language."""
        raise NotImplementedError

    def check_syntax(self, text: str, kind: str, path: str) -> None:
        """Raise TextError for the mistakes of a text of that kind. path: its name in messages."""
        raise NotImplementedError

    def read_net(
        self, path: str, params: Mapping[str, Any], overrides: Sequence[str], report: Report, allow_solver: bool
    ) -> ForeignNet:
        """The net of a file. params, overrides: as of `load_model`. report: takes mistakes of overrides. allow_solver:
        whether a text of the kind "solver" stands for the net that it names. Raises TextError with the mistakes of the
        text, FileError, UsageError."""
        raise NotImplementedError


def find_dialect(text: str) -> tuple[TextDialect, str] | None:
    """The dialect of a text and its kind there; None for a text of ours."""
    candidates = entries(TextDialect.__name__)
    words = {word for entry in candidates for word in entry.facts["words"]}
    if any(word in words for word in words_at_top_level(text)):
        for entry in candidates:
            dialect: TextDialect = entry.load()
            kind = dialect.recognize(text)
            if kind is not None:
                return dialect, kind
    return None


def words_at_top_level(text: str) -> Iterator[str]:
    """The names and values of a text that stand in no brackets, in order; the text may have mistakes."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "{<[(":
            depth += 1
        elif token in "}>])":
            depth = max(depth - 1, 0)
        elif depth == 0 and token[0] not in "#\"'":
            yield token
