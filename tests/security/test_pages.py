"""docs/security.md and docs/reliability.md name a test for each promise; the tests exist, and each row has one."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "docs" / "security.md", REPOSITORY / "docs" / "reliability.md"]
NAME = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows(page):
    """The cells of the rows of the tables whose header has a column of tests."""
    has_tests = False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            has_tests = False
        elif cells[-1] == "Test" or "Tests" in cells:
            has_tests = True
        elif has_tests and not set(cells[0]) <= set("-: "):
            yield cells


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_exist(page):
    names = NAME.findall(page.read_text())
    assert len(names) > 15
    for path, function in names:
        source = (REPOSITORY / path).read_text()
        assert not function or f"def {function}(" in source, f"{path}::{function}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_row_has_a_test_or_says_what_it_waits_for(page):
    each = list(rows(page))
    assert len(each) > 15
    for cells in each:
        assert NAME.search(" ".join(cells)) or "waits for" in " ".join(cells), cells
