"""The params and blocks that the included files of a text define, without an expansion."""

from __future__ import annotations

from typing import Any

from prototorch.text import limits
from prototorch.text.diagnostics import Report
from prototorch.text.includes import IncludeError, IncludeFiles
from prototorch.text.reader import decode_utf8, parse
from prototorch.text.syntax_tree import BlockDef, Document, Include, Param

__all__ = ["read_included"]


def read_included(document: Document, root: str | None) -> tuple[Any, ...] | None:
    """The statements ``param`` and ``block`` of all files that a document of the folder ``root`` includes; None where
    one of them cannot be read."""
    files = IncludeFiles(root, len(document.source.text) if document.source else 0)
    statements: list[Any] = []
    try:
        _collect(document, files, (), set(), statements)
    except IncludeError:
        return None
    return tuple(statements)


def _collect(
    document: Document, files: IncludeFiles, base: tuple[str, ...], seen: set[tuple[str, ...]], statements: list[Any]
) -> None:
    for s in document.statements:
        if isinstance(s, Param | BlockDef) and document.source is not None and seen:
            statements.append(s)
        if not isinstance(s, Include):
            continue
        parts = files.locate(s.path, base)
        if parts in seen or len(seen) > limits.MAX_INCLUDE_DEPTH:
            continue
        report = Report()
        text = decode_utf8(files.read(parts), files.name(parts), report)
        included = parse(text or "", files.name(parts), report)
        if len(report):
            raise IncludeError(files.name(parts))
        _collect(included, files, parts[:-1], {*seen, parts}, statements)
