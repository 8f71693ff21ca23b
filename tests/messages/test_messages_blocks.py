"""The table of mistakes in the blocks compile and fit: the rows are in blocks.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from prototorch.errors import TextError
from prototorch.model.load import model_from_text

NET = """input { name: "x"  shape: [1, 8, 8] }
Conv2D { name: "c"  filters: 4  kernel_size: 3 }
Flatten { }
Dense { name: "y"  units: 3 }
"""


def _table() -> list[tuple[str, str, list[str]]]:
    rows = []
    for part in (Path(__file__).parent / "blocks.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        name, text, *wanted = part.rstrip("\n").split("\n")
        rows.append((name, text, [line.removeprefix("-> ") for line in wanted]))
    return rows


TABLE = _table()


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_mistake(text, wanted):
    with pytest.raises(TextError) as caught:
        model_from_text(NET + text, "m.proto")
    assert [f"{str(m.span)[len('m.proto:') :]}: {m.message}" for m in caught.value.mistakes] == wanted


def test_the_net_alone_is_right():
    assert len(model_from_text(NET).net.nodes) == 3
