"""The table of mistakes in uses of nets: the rows are in nets.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

import prototorch as pt
from prototorch.errors import TextError
from prototorch.text.diagnostics import format_chain

FILES = {
    "base.proto": """
param width: 4
param rate: 0.5
input { name: "v"  shape: [6] }
Dense { name: "a"  units: $width  activation: tanh }
Dropout { rate: $rate }
Dense { name: "b"  units: 5 }
""",
    "pair.proto": """input { name: "l"  shape: [3] }
input { name: "r"  shape: [3] }
Add { bottom: ["l", "r"] }
""",
    "bad.proto": """input("x", [6])
Dence(2)
""",
    "caffe.proto": 'layer { name: "d" type: "InnerProduct" }',
    "broken.h5": "broken",
    "circle.proto": """input("x", [6])
Net("outer.proto")
""",
    "own.proto": """import: "some_layers"
input("x", [6])
Dense(2)
""",
}


def _table() -> list[tuple[str, str, list[str]]]:
    rows = []
    for part in (Path(__file__).parent / "nets.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        name, _, rest = part.partition("\n")
        lines = rest.rstrip("\n").split("\n")
        expected = [line[3:] for line in lines if line.startswith("-> ")]
        rows.append((name, "\n".join(line for line in lines if not line.startswith("-> ")), expected))
    return rows


TABLE = _table()


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_mistake(tmp_path, text, expected):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "outer.proto").write_text(f'input("x", [6])\n{text}\n')
    with pytest.raises(TextError) as raised:
        pt.load_model(tmp_path / "outer.proto")
    messages = [
        f"{str(m.span).rpartition('.proto:')[2]}: {m.message}" + (f" ({format_chain(m.chain)})" if m.chain else "")
        for m in raised.value.mistakes
    ]
    assert [m.replace(f"{tmp_path}/", "") for m in messages] == expected


def test_each_row_differs():
    assert len(TABLE) >= 22
    assert all(expected for _, _, expected in TABLE)
    assert len({row[0] for row in TABLE}) == len({row[1] for row in TABLE}) == len(TABLE)
