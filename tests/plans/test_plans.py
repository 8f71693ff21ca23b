"""The plans of the shipped models are the ones that are kept: what changes in a plan is seen and meant."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from prototorch.base.package_files import shipped_models
from tests.plans.plan_files import KEPT, here, path, texts

MOST = 60  # lines of a difference that are shown


@pytest.mark.parametrize("level", KEPT)
def test_the_plans_are_the_ones_that_are_kept(level: str):
    if level not in here():
        pytest.skip(f"this machine does not make plans of the level {level} as they are kept")
    changed, shown = [], []
    for name, now in texts(level, shipped_models()).items():
        kept = path(level, name)
        before = kept.read_text(encoding="utf-8") if kept.exists() else ""
        if now != before:
            changed.append(name)
            shown += unified_diff(before.splitlines(), now.splitlines(), f"{kept.name} (kept)", "now", n=1, lineterm="")
    if not changed:
        return
    more = [f"... and {len(shown) - MOST} lines more"] if len(shown) > MOST else []
    head = [f"the plans of {', '.join(changed)} at the level {level} have changed; if this is meant, then",
            "    python -m tests.plans",
            "writes them anew: look at the difference, and commit it"]  # fmt: skip
    pytest.fail("\n".join([*head, *shown[:MOST], *more]), pytrace=False)


@pytest.mark.parametrize("level", KEPT)
def test_no_plan_is_kept_of_a_model_that_is_gone(level: str):
    assert {p.stem for p in path(level, "any").parent.glob("*.txt")} == set(shipped_models())
