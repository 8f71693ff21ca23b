"""The quick look whether anything has happened to arrays since their stamp was taken."""

import numpy as np
import pytest

from prototorch.runtime.variables import Variables
from prototorch.runtime.versions import VersionTracker


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
    lambda variables: variables.versions.mark_all(),
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


def test_somebody_holds_an_array_who_did_not_ask():
    arrays = {"a": np.zeros(3)}
    changes = VersionTracker(arrays)
    seen = changes.snapshot(("a",))
    assert changes.is_unchanged(seen)
    held = arrays["a"]
    assert not changes.is_unchanged(seen)
    view = held[1:]
    del held
    assert not changes.is_unchanged(seen)  # the view holds it
    del view
    assert changes.is_unchanged(seen)
