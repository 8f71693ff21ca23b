"""The table of docs/from-keras.md: each row is shown by a case that gives one thing in Keras and another here."""

from __future__ import annotations

import inspect

import pytest

from tests.keras_random import shown_layers, shown_trainings  # noqa: F401  (they register their cases)
from tests.keras_random.differences import DIFFERENCES, read_differences
from tests.keras_random.showing import CASES

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_row_is_shown_and_every_case_has_a_row():
    assert set(CASES) == set(DIFFERENCES)


@pytest.mark.parametrize("what", list(DIFFERENCES))
def test_difference(what, tmp_path):
    case = CASES[what]
    case(*[tmp_path] * len(inspect.signature(case).parameters))


def test_a_malformed_table_is_refused():
    head = "## What differs on purpose\n\n| What | Keras | here | why |\n| --- | --- | --- | --- |\n"
    assert list(read_differences(head + "| a | b | c | d |\n")) == ["a"]
    for wrong in ("| a | b | c |\n", "| a | b | | d |\n", "| a | b | c | d |\n| a | e | f | g |\n"):
        with pytest.raises(ValueError, match=r"four cells|there twice"):
            read_differences(head + wrong)
    with pytest.raises(ValueError, match="has no section"):
        read_differences("# Another page")
