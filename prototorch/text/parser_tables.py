"""The parser's tables, made from the grammar ahead of time: reading them takes a tenth of the time of making them.

They lie beside the grammar as JSON, with the grammar's checksum and lark's version; where one of these is another, the
tables are made anew in memory. After a change of the grammar: ``python -m prototorch.text.parser_tables``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from prototorch.package_files import package_folder

_GRAMMAR, _TABLES = "model.lark", "model.tables.json"
_START_RULES = ["document", "only_value", "only_expression"]


def load_parser(transformer: Any) -> lark.Lark:
    """The parser of the language, whose rules call the methods of ``transformer``."""
    grammar = (package_folder("grammars") / _GRAMMAR).read_text(encoding="utf-8")
    held = _load_tables(grammar)
    if held is not None:
        return lark.Lark._load_from_dict(*held, transformer=transformer)  # what lark's own stand-alone parsers call
    return _build_parser(grammar, transformer)


def _build_parser(grammar: str, transformer: Any = None) -> lark.Lark:
    return lark.Lark(
        grammar, parser="lalr", lexer="basic", start=_START_RULES, maybe_placeholders=False, transformer=transformer
    )


def _cache_key(grammar: str) -> str:
    return f"lark {lark.__version__} {hashlib.sha256(grammar.encode()).hexdigest()}"


def _load_tables(grammar: str) -> tuple[Any, Any] | None:
    """The tables that were made before, if they are of this grammar and this lark."""
    try:
        found = json.loads((package_folder("grammars") / _TABLES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if found.get("mark") != _cache_key(grammar):
        return None
    table = found["data"]["parser"]["parser"]
    table["states"] = _with_int_keys(table["states"])
    return found["data"], _with_int_keys(found["memo"])


def _with_int_keys(entries: dict[str, Any]) -> dict[int, Any]:
    """JSON knows no numbers as keys."""
    return {int(key): value for key, value in entries.items()}


def serialize_tables() -> str:
    """The tables as they belong into their file."""
    grammar = (package_folder("grammars") / _GRAMMAR).read_text(encoding="utf-8")
    data, memo = _build_parser(grammar).memo_serialize([TerminalDef, Rule])
    text = json.dumps({"mark": _cache_key(grammar), "data": data, "memo": memo}, separators=(",", ":"), sort_keys=True)
    return text + "\n"


if __name__ == "__main__":
    (package_folder("grammars") / _TABLES).write_text(serialize_tables(), encoding="utf-8")
