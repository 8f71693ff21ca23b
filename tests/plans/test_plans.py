"""The plans of the shipped models are the ones that are kept: what changes in a plan is seen and meant."""

from __future__ import annotations

from difflib import unified_diff

import pytest
from plan_files import HERE, KEPT, path, text

from prototorch.resources import shipped_models

MOST = 60  # lines of a difference that are shown


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_the_plan_is_the_one_that_is_kept(level: str, name: str):
    kept = path(level, name)
    before = kept.read_text(encoding="utf-8") if kept.exists() else ""
    now = text(level, name)
    if now == before:
        return
    lines = list(unified_diff(before.splitlines(), now.splitlines(), f"{kept.name} (kept)", "now", n=1, lineterm=""))
    shown = [*lines[:MOST], *([f"... and {len(lines) - MOST} lines more"] if len(lines) > MOST else [])]
    advice = "if this is meant: python -m tests.plans, look at the difference, commit it"
    pytest.fail("\n".join([f"the plan of {name} at the level {level} has changed ({advice})", *shown]), pytrace=False)


@pytest.mark.parametrize("level", KEPT)
def test_no_plan_is_kept_of_a_model_that_is_gone(level: str):
    assert {p.stem for p in path(level, "any").parent.glob("*.txt")} == set(shipped_models())
