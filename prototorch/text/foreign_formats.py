"""Texts in another language, pasted where a model text is expected: one message that names it, at its first trace.

Looked for only after a syntax error, so that a valid text pays nothing.
"""

from __future__ import annotations

import re

from prototorch.text.diagnostics import Diagnostic
from prototorch.text.source import Source, Span

_SEARCH_LENGTH = 100_000  # characters of a text that are searched
_HEAD = r"\A(?:\s|#[^\n]*\n)*"  # empty lines and comments before the first statement
_BLOCKS = (
    "blocks have braces, a value follows ':', a string has quotes: Conv2D { filters: 20  padding: same  name: \"c1\" }"
)
#: assignments that name no output: to a call of an attribute, of a model, with keywords, of what a call gives
_PYTHON_ASSIGNMENTS = (
    r"[A-Za-z_]\w*\s*=\s*(?:(?:[A-Za-z_]\w*\.)++\w+\s*\(|(?:Sequential|Model)\s*\("
    r"|[A-Za-z_]\w*+\s*\((?:[^\n]*?\w\s*=(?!=)|[^(){}]*+(?:\([^(){}]*+\)[^(){}]*+)*+\)\s*\())"
)
_PYTHON = (
    r"^[ \t]*(?P<at>from\s+[\w.]+\s+import\b|import\s+[A-Za-z_]|class\s+\w+\s*[(:]|def\s+\w+\s*\(|@\w+"
    r"|\w+(?:\.\w+)+\s*\(|ASSIGNMENTS|(?:return|with|for)\s+\w+[^{}\n]*:?\s*$)"
)
#: (what it is, the pattern of its first trace, what to write instead)
_FORMATS = (
    ("XML", _HEAD + r"(?P<at><(?:\?xml|!DOCTYPE|[A-Za-z][\w.:-]*))[^>]*>", _BLOCKS),
    ("JSON", _HEAD + r'(?P<at>\{)\s*["}]', _BLOCKS),
    ("JSON", _HEAD + r'(?P<at>\[)\s*[\[{"]', _BLOCKS),
    ("Markdown", r"^(?P<at>```)", "take the lines between the fences only"),
    ("TOML", r"^(?P<at>\[\[?[A-Za-z_][\w. -]*\]\]?)[ \t]*(?:#.*)?\r?$", _BLOCKS),
    (
        "Python",
        _PYTHON.replace("ASSIGNMENTS", _PYTHON_ASSIGNMENTS),
        _BLOCKS + "; `print(model.to_text())` writes the text of a model made in Python",
    ),
    ("YAML", r"^(?P<at>---)[ \t]*\r?$", _BLOCKS),
    ("YAML", r"^[ \t]*(?P<at>- +[A-Za-z_]\w*)[ \t]*(?::|\r?$)", _BLOCKS),
    ("YAML", r"^(?P<at>[A-Za-z_]\w*:)[ \t]*\r?\n[ \t]+[A-Za-z_]\w*:[ \t]", _BLOCKS),
)
_PATTERNS = [(name, re.compile(pattern, re.MULTILINE), hint) for name, pattern, hint in _FORMATS]
_ANY_ASSIGNMENT = r"[A-Za-z_]\w*\s*=\s*[A-Za-z_][\w.]*\s*\("
_PYTHON_BESIDE_CAFFE = re.compile(_PYTHON.replace("ASSIGNMENTS", _ANY_ASSIGNMENT), re.MULTILINE)
_CALL = re.compile(r"^[ \t]*(?P<name>(?!(?:if|in|repeat)\b)[A-Za-z_]\w*)\([^\n]*", re.MULTILINE)


def find_foreign_format(source: Source, is_protobuf: bool = False) -> Diagnostic | None:
    """The error for a text in another language; None where it is not recognized as one.

    is_protobuf: whether a text of Caffe is expected, in which no output is named by ``=``.
    """
    text = source.text[:_SEARCH_LENGTH]
    traces = []
    for name, pattern, hint in _PATTERNS:
        searched = _PYTHON_BESIDE_CAFFE if is_protobuf and name == "Python" else pattern
        if (match := searched.search(text)) is not None:
            traces.append((match, name, hint))
    if not traces:
        return None
    match, name, hint = traces[0]
    start = min(other.start("at") for other, same, _ in traces if same == name)
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)].rstrip()
    return Diagnostic(f"This is {name}, not a model text: {hint}.", Span(source, start, start + len(line)))


def replace_call_errors(source: Source, errors: list[Diagnostic]) -> list[Diagnostic]:
    """The errors of a text with lines such as ``Dense(10)``: for each such line one error instead of its own."""
    calls = {source.position(m.start("name"))[0]: m for m in _CALL.finditer(source.text[:_SEARCH_LENGTH])}
    lines = {e.span.line for e in errors if e.span is not None} & calls.keys()
    others = [e for e in errors if e.span is None or e.span.line not in lines]
    return [*others, *(_call_error(source, calls[line]) for line in sorted(lines))]


def _call_error(source: Source, match: re.Match[str]) -> Diagnostic:
    name = match["name"]
    message = f"{name}(...) is a call in Python. Here a layer is a block: {name} {{ field: value  field: value }}."
    return Diagnostic(message, Span(source, *match.span("name")))
