"""The parser's tables that were made ahead: they are the grammar's, and read what freshly made ones read."""

import json

import pytest

from prototorch.resources import folder, shipped_models
from prototorch.text import reader, tables
from prototorch.text.build import Builder
from prototorch.text.writer import write


def test_the_tables_belong_to_the_grammar():
    """After a change of the grammar: python -m prototorch.text.tables."""
    grammar = (folder("grammars") / "model.lark").read_text(encoding="utf-8")
    made = json.loads((folder("grammars") / "model.tables.json").read_text(encoding="utf-8"))["mark"].split()
    here = tables._mark(grammar).split()
    assert made[2] == here[2]
    if made[1] == here[1]:
        assert tables._held(grammar) is not None


def test_fresh_tables_read_the_same(monkeypatch):
    paths = list(shipped_models().values())
    held = [write(reader.parse(path.read_text(), trivia=True)) for path in paths]
    monkeypatch.setattr(tables, "_held", lambda grammar: None)
    reader._parser.cache_clear()
    made = [write(reader.parse(path.read_text(), trivia=True)) for path in paths]
    reader._parser.cache_clear()
    assert held == made


@pytest.mark.parametrize("damage", [b"", b"{", b'{"mark": "lark 0.0 0"}', None])
def test_tables_of_another_grammar_or_none_are_made_anew(tmp_path, monkeypatch, damage):
    (tmp_path / "model.lark").write_text((folder("grammars") / "model.lark").read_text())
    if damage is not None:
        (tmp_path / "model.tables.json").write_bytes(damage)
    monkeypatch.setattr(tables, "folder", lambda name: tmp_path)
    parser = tables.parser(Builder(reader._fill))
    assert {t.name for t in parser.terminals} == {t.name for t in reader._parser()[0].terminals}
