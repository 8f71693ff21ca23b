"""Mistakes in tables: a header without rows, a target column of numbers with something else in between."""

from __future__ import annotations

import pytest

from prototorch.data.csv_reader import read_csv
from prototorch.errors import DataError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\n", "has no rows: its one line has no numbers"),
        ("a,b,c\n1,2,3\n4,5,NA\n", "line 3, column 'c': expected a number, got 'NA' .*classes"),
        ("a,b,c\n1,2,3\n4,5,cat\n6,7,8\n", "line 3, column 'c': expected a number, got text of 3 characters"),
        ("a,b,c\n1,2,3\n4,5,\n", "line 3, column 'c': the target is missing"),
    ],
)
def test_mistakes_name_line_and_column(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_csv(tmp_path / "t.csv")


def test_classes_that_look_like_numbers_can_be_listed(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,0\n2,1\n3,other\n")
    assert read_csv(tmp_path / "t.csv", classes=["0", "1", "other"]).column_array("b").tolist() == [0, 1, 2]
    (tmp_path / "t.csv").write_text("a,b\n1,cat\n2,dog\n3,cat\n")
    assert read_csv(tmp_path / "t.csv").column_array("b").tolist() == [0, 1, 0]
