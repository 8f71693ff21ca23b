"""The table of pasted texts: other languages, other frameworks' words, look-alike letters; rows are in pasted.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototorch.errors import TextError
from prototorch.model.diagnose import check_model


def _table() -> list[tuple[str, str, list[str]]]:
    rows = []
    for part in (Path(__file__).parent / "pasted.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        name, _, rest = part.partition("\n")
        lines = rest.rstrip("\n").split("\n")
        expected = [line[3:] for line in lines if line.startswith("-> ")]
        rows.append((name, "\n".join(line for line in lines if not line.startswith("-> ")) + "\n", expected))
    return rows


TABLE = _table()


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_place_caret_and_message(text, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.proto").write_text(text, encoding="utf-8")
    with pytest.raises(TextError) as caught:
        check_model("m.proto")
    shown = []
    for mistake in caught.value.mistakes:
        place, span = mistake.location.removeprefix("m.proto:"), mistake.span
        shown.append(f"{place} |{span.text.splitlines()[0] if span.text else ''}| {mistake.message}")
        carets = str(mistake).splitlines()[2]
        assert carets.count("^") == max(1, len(span.text.splitlines()[0]))
    assert shown == expected


def test_the_table_is_long_and_each_row_differs():
    assert len(TABLE) >= 80
    assert len({row[0] for row in TABLE}) == len({row[1] for row in TABLE}) == len(TABLE)
