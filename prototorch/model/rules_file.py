"""Rules from a text file or from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from prototorch.errors import UsageError
from prototorch.model.name_rules import MapRule, Rules
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_document
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields

__all__ = ["as_rules", "format_rules"]


def as_rules(source: Any) -> Rules | None:
    """Rules from a `Rules` block, the path of a rules file, a mapping of the file's names to the net's, or None.

    A rules file has one block ``rules { ... }`` in the model language, with ``repeat``, ``if`` and expressions. Raises
    UsageError for other values, TextError with all mistakes of the text, FileError where there is no such file.
    """
    if source is None or isinstance(source, Rules):
        return source
    if isinstance(source, Mapping):
        return Rules(map=[MapRule(from_=theirs, to=ours) for theirs, ours in source.items()])
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"rules: expected the path of a rules file, a dict {{from: to}} or Rules, not {source!r:.80}")
    report = Report()
    document = load_document(source, report=report)
    report.raise_if_any()
    blocks = [f for f in document.fields if f.name == "rules" and isinstance(f.value, Body)]
    others = [f.name for f in document.fields if f.name != "rules"]
    if len(blocks) != 1 or others:
        others_text = f", not {', '.join(others[:3])}" if others else ""
        raise UsageError(f"{os.fspath(source)}: a rules file has one block rules {{ ... }}{others_text}")
    rules = Rules.from_fields(blocks[0].value.fields, report, blocks[0].name_span)
    report.raise_if_any()
    assert isinstance(rules, Rules)
    return rules


def format_rules(pairs: Mapping[str, str]) -> str:
    """The text of a rules file that maps the file's names to the net's.

    Raises UsageError for a name with ``*`` or ``?``, which a rule would read as a wildcard.
    """
    for theirs in pairs:
        if "*" in theirs or "?" in theirs:
            raise UsageError(f"no rule can be written for the name {theirs!r:.100}: its * or ? would be a wildcard")
    rules = (MapRule(from_=theirs, to=ours) for theirs, ours in pairs.items())
    blocks = tuple(Field("map", Body(tuple(rule.to_fields()))) for rule in rules)
    return format_fields([Field("rules", Body(blocks))])
