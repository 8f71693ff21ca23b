"""The quick look whether anything has happened to arrays since their stamp was taken."""

import numpy as np
import pytest

from prototorch.runtime.variables import Variables


def made():
    variables = Variables()
    for name in ("a", "b"):
        variables.create(name, np.zeros(3, np.float32))
    changes = variables.versions
    assert changes.version_of(("a",)) is not None
    return variables, changes, changes.snapshot(("a",))


def test_nothing_has_happened():
    _, changes, seen = made()
    assert changes.is_unchanged(seen)
    assert changes.is_unchanged(seen)


@pytest.mark.parametrize("happens", [
    lambda variables: variables["a"],
    lambda variables: variables.assign("a", 1.0),
    lambda variables: variables.__setitem__("a", np.ones(3)),
    lambda variables: list(variables.values()),
    lambda variables: dict(variables),
    lambda variables: variables.versions.mark_all_changed(),
    lambda variables: variables.versions.register_writer(frozenset("a")),
])  # fmt: skip
def test_what_may_have_changed_an_array_is_seen(happens):
    variables, changes, seen = made()
    happens(variables)
    assert not changes.is_unchanged(seen)


def test_a_writer_counts_up():
    variables, changes, _ = made()
    mine, other = changes.register_writer(frozenset("a")), changes.register_writer(frozenset("b"))
    seen = changes.snapshot(("a",))
    other[0] += 1
    assert changes.is_unchanged(seen)
    mine[0] += 1
    assert not changes.is_unchanged(seen)
    assert set(variables) == {"a", "b"}


@pytest.mark.parametrize("hold", [lambda a: a, lambda a: a[1:][:1], memoryview, np.asarray], ids=range(4))
def test_an_array_has_no_version_while_it_or_a_view_of_it_is_alive(hold):
    variables, versions, _ = made()
    before = versions.version_of(("a",))
    view = hold(variables["a"])
    assert versions.version_of(("a",)) is None
    assert versions.version_of(("b",)) is not None
    np.asarray(view)[...] = 3
    del view
    assert versions.version_of(("a",)) not in (None, before)
    assert variables.borrow("a").max() == 3


def test_the_same_array_is_exported_again_while_it_is_alive():
    variables, *_ = made()
    array = variables["a"]
    assert variables["a"] is array
    variables["a"] = np.ones(3)
    assert variables["a"] is not array
    array[...] = 7
    assert variables["a"].tolist() == [1, 1, 1]


def test_a_replaced_array_that_is_still_alive_does_not_count():
    variables, versions, _ = made()
    old = variables["a"]
    variables["a"] = np.ones(3)
    assert versions.version_of(("a",)) is not None
    del old
    assert versions.version_of(("a",)) is not None


@pytest.mark.parametrize("read", [lambda v: v.copy(), lambda v: v | {}, lambda v: v.get("a"), lambda v: v.pop("a")])
def test_no_method_of_a_dict_gives_an_array_away_unnoticed(read):
    variables, versions, snapshot = made()
    held = read(variables)
    assert not versions.is_unchanged(snapshot)
    assert "a" not in variables or versions.version_of(("a",)) is None
    del held
