"""The parser's tables that were made ahead: they are the grammar's, and read what freshly made ones read."""

import json

import pytest

from prototorch.package_files import package_folder, shipped_models
from prototorch.text import parser_tables, reader
from prototorch.text.tree_builder import TreeBuilder
from prototorch.text.writer import format_document


def test_the_tables_belong_to_the_grammar():
    """After a change of the grammar: python -m prototorch.text.parser_tables."""
    grammar = (package_folder("grammars") / "model.lark").read_text(encoding="utf-8")
    made = json.loads((package_folder("grammars") / "model.tables.json").read_text(encoding="utf-8"))["mark"].split()
    here = parser_tables._cache_key(grammar).split()
    assert made[2] == here[2]
    if made[1] == here[1]:
        assert parser_tables._load_tables(grammar) is not None


def test_fresh_tables_read_the_same(monkeypatch):
    paths = list(shipped_models().values())
    held = [format_document(reader.parse(path.read_text(), trivia=True)) for path in paths]
    monkeypatch.setattr(parser_tables, "_load_tables", lambda grammar: None)
    reader._parser.cache_clear()
    made = [format_document(reader.parse(path.read_text(), trivia=True)) for path in paths]
    reader._parser.cache_clear()
    assert held == made


@pytest.mark.parametrize("damage", [b"", b"{", b'{"mark": "lark 0.0 0"}', None])
def test_tables_of_another_grammar_or_none_are_made_anew(tmp_path, monkeypatch, damage):
    (tmp_path / "model.lark").write_text((package_folder("grammars") / "model.lark").read_text())
    if damage is not None:
        (tmp_path / "model.tables.json").write_bytes(damage)
    monkeypatch.setattr(parser_tables, "folder", lambda name: tmp_path)
    parser = parser_tables.load_parser(TreeBuilder(reader._parse_placeholder))
    assert {t.name for t in parser.terminals} == {t.name for t in reader._parser()[0].terminals}
