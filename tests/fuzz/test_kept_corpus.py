"""Files that prototorch once read wrongly or met with a bare exception, and, under -m slow, the generator of more."""

from __future__ import annotations

import pytest

from tests.fuzz.formats import MODULES, load_format
from tests.fuzz.harness import case, corpus, judge

COUNT = 2000  # of generated files of a format
PATHS = [(name, path) for name in MODULES for path in corpus(name)]


@pytest.mark.parametrize(("name", "path"), PATHS, ids=[f"{name}/{path.stem}" for name, path in PATHS])
def test_a_kept_file_is_refused_with_its_place_or_computes_what_the_reference_does(name, path):
    verdict = judge(load_format(name), path)
    assert not verdict.is_failure, verdict


@pytest.mark.parametrize("name", MODULES)
def test_the_first_generated_files(tmp_path, name):
    assert_cases(name, range(3 if name.startswith("keras") else 12), tmp_path)  # Keras takes a second for one


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_generated_files(tmp_path, name):
    assert_cases(name, range(COUNT), tmp_path)


def assert_cases(name, numbers, folder):
    format = load_format(name)
    failures = {}
    for number in numbers:
        path = folder / f"case{number}{format.ending}"
        path.write_bytes(case(format, number))
        verdict = judge(format, path)
        path.unlink()
        if verdict.is_failure:
            failures[number] = verdict
    assert failures == {}
