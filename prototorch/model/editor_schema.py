"""The language as data, for editors and other tools: keywords, classes, fields, their words, defaults and order.

`language_schema` is one object that JSON can hold, `textmate_grammar` a grammar for the colours of words.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any

from prototorch.model.docs_pages import FAMILIES, Page, list_families, list_sections
from prototorch.schema.call_schema import class_schema, classes_in
from prototorch.schema.types import Choice, Optional, python_name
from prototorch.text.expression_functions import FUNCTIONS
from prototorch.text.keywords import CONSTANTS, KEYWORDS, LAYER_WORDS, TOP_LEVEL, LanguageWord
from prototorch.text.limits import INCLUDE_SUFFIX

__all__ = ["FORMAT", "language_schema", "textmate_grammar"]

FORMAT = 1  # of the object; a field is added without a new one, and none is taken away
_WORD = re.compile(r"[A-Za-z_]\w*")


def language_schema() -> dict[str, Any]:
    """The language as an object: see docs/language.md, "The schema for editors"."""
    classes = list_families()
    roots = _roots([*list_sections().values(), *(cls for members in classes.values() for cls in members)])
    sections = {name: _describe_class(Page(block, "block")) for name, block in list_sections().items()}
    families = {
        family: {cls.__name__: _describe_class(Page(cls, family)) for cls in members}
        for family, members in classes.items()
    }
    return {
        "format": FORMAT,
        "version": importlib.import_module("prototorch").__version__,
        "suffix": INCLUDE_SUFFIX,
        "keywords": {word: _describe_word(entry) for word, entry in KEYWORDS.items()},
        "constants": list(CONSTANTS),
        "functions": {name: {"usage": function.usage} for name, function in FUNCTIONS.items()},
        "top_level": {word: _describe_word(entry) for word, entry in TOP_LEVEL.items()},
        "layer_words": {word: _describe_word(entry) for word, entry in LAYER_WORDS.items()},
        "sections": sections,
        "families": families,
        "classes": {
            name: {"family": _family_of(root), "members": sorted(root.members())}
            for name, root in roots.items()
            if root.family_registry is not None
        },
        "blocks": {
            name: _describe_class(Page(root, "block")) for name, root in roots.items() if root.family_registry is None
        },
    }


def _family_of(root: Any) -> str | None:
    """The family, as `list_families` names it, of a root or of a class that is a part of one."""
    return next((name for name, other in FAMILIES.items() if other.family_registry is root.family_registry), None)


def _describe_word(entry: LanguageWord) -> dict[str, Any]:
    return {"form": entry.form, "doc": entry.doc, "is_statement": entry.is_statement}


def _describe_class(page: Page) -> dict[str, Any]:
    """A class with its fields; ``positional``: those that are given by position in a call, in order."""
    block: Any = page.block
    schema = class_schema(block)
    least, most = block.input_range() if hasattr(block, "input_range") else (0, 0)
    entry = page.as_dict()
    del entry["name"], entry["family"]
    return {
        **entry,
        "positional": list(schema.positional),
        "takes_name": schema.has_field("name"),
        "inputs": {"min": least, "max": most},
        "takes_branches": bool(getattr(block, "accepts_branches", False)),
        "fields": [{**row, **_describe_values(block, row["name"])} for row in page.fields()],
    }


def _describe_values(block: Any, name: str) -> dict[str, Any]:
    """What may stand in a field: its words, and the roots of the classes that it takes, by their names."""
    spec = block.specs()[python_name(name)]
    kind = spec.type.inner if isinstance(spec.type, Optional) else spec.type
    words = [word for word in _WORD.findall(spec.type.label()) if class_schema(block).takes_word(name, word)]
    words += [choice for choice in kind.choices if isinstance(choice, str)] if isinstance(kind, Choice) else []
    roots = list(classes_in(spec.type))
    return {
        "required": spec.required,
        "words": list(dict.fromkeys(words)),
        "takes_none": isinstance(spec.type, Optional),
        "classes": [root.__name__ for root in roots if root.family_registry is not None],
        "blocks": [root.__name__ for root in roots if root.family_registry is None],
    }


def _roots(classes: Iterable[Any]) -> dict[str, Any]:
    """The classes that the fields of some classes take, with those of their fields: roots of families, and blocks."""
    roots: dict[str, Any] = {}
    pending = list(classes)
    seen: set[Any] = set()
    while pending:
        block: Any = pending.pop()
        if block in seen:
            continue
        seen.add(block)
        for spec in block.specs().values():
            for root in classes_in(spec.type):
                roots[root.__name__] = root
                if root.family_registry is None:
                    pending.append(root)
    return dict(sorted(roots.items()))


def textmate_grammar() -> dict[str, Any]:
    """A grammar of TextMate's form, which editors take for the colours of words: ``source.prototorch``."""
    statements = "|".join(word for word, entry in KEYWORDS.items() if entry.is_statement)
    others = "|".join(word for word, entry in KEYWORDS.items() if not entry.is_statement)
    string = [
        {
            "name": "string.quoted.prototorch",
            "begin": mark,
            "end": f"{mark}|$",
            "patterns": [
                {"name": "constant.character.escape.prototorch", "match": r"\\."},
                {
                    "name": "variable.other.prototorch",
                    "begin": r"\$\{",
                    "end": r"\}",
                    "patterns": [{"include": "$self"}],
                },
            ],
        }
        for mark in ('"', "'")
    ]
    return {
        "name": "prototorch",
        "scopeName": "source.prototorch",
        "fileTypes": [INCLUDE_SUFFIX.removeprefix(".")],
        "patterns": [
            {"name": "comment.line.number-sign.prototorch", "match": "#.*$"},
            *string,
            {
                "match": r"\b(block)\s+([A-Za-z_]\w*)",
                "captures": {
                    "1": {"name": "keyword.control.prototorch"},
                    "2": {"name": "entity.name.function.prototorch"},
                },
            },
            {"name": "keyword.control.prototorch", "match": rf"\b(?:{statements}|{others})\b(?!\s*[:({{=])"},
            {"name": "variable.other.prototorch", "match": r"\$[A-Za-z_]\w*"},
            {"name": "support.function.prototorch", "match": rf"\b(?:{'|'.join(FUNCTIONS)})\b(?=\s*\()"},
            {"name": "constant.language.prototorch", "match": rf"\b(?:{'|'.join(CONSTANTS)})\b"},
            {"name": "entity.other.attribute-name.prototorch", "match": r"\b[A-Za-z_]\w*(?=\s*:)"},
            {"name": "entity.name.type.prototorch", "match": r"\b[A-Z]\w*\b"},
            {"name": "entity.name.function.prototorch", "match": r"\b[a-z_]\w*(?=\s*[({])"},
            {
                "name": "constant.numeric.prototorch",
                "match": r"(?<!\w)(?:0[xX][0-9A-Fa-f]+|\.?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?f?)\b",
            },
            {"name": "keyword.operator.prototorch", "match": r"->|[-+*/%<>=!]+"},
        ],
    }
