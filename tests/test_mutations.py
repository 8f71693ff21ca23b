"""The mutations of tests/mutations fit the code: `python -m tests.mutations` itself is run by hand."""

import ast
import re

from tests.mutations.catalogue import REPOSITORY, load_mutations

MUTATIONS = load_mutations()


def test_there_are_a_hundred_and_each_has_its_own_name():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 100


def test_every_mutation_fits_its_file_and_changes_what_it_means():
    for mutation in MUTATIONS:
        source = (REPOSITORY / mutation.file).read_text()
        changed = mutation.mutate(source)  # raises ValueError for an entry that no longer fits
        if mutation.file.endswith(".py"):
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutation.name


def test_the_tests_that_must_fail_exist():
    for test in {test for mutation in MUTATIONS for test in mutation.tests}:
        path, _, name = test.partition("::")
        assert (REPOSITORY / path).exists(), test
        assert not name or re.search(rf"def {re.escape(name.partition('[')[0])}\(", (REPOSITORY / path).read_text()), (
            test
        )
