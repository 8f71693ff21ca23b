"""docs/architecture.md names what is there: the passes of the pipeline with their reasons, and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

from prototorch.graph.pipeline import PIPELINE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_page_lists_the_pipeline():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(step.name, step.reason) for step in PIPELINE]


def test_every_file_it_names_exists():
    named = set(re.findall(r"`((?:prototorch/|tests/)?[a-z_]+(?:/[a-z_]+)*\.py)`", PAGE))
    assert len(named) > 8
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "prototorch" / name).exists()]
    assert missing == []
