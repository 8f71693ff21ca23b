"""The quick look whether anything has happened to arrays since their stamp was taken."""

import numpy as np
import pytest

from prototorch.engine.changes import Changes
from prototorch.engine.variables import Variables


def made():
    variables = Variables()
    for name in ("a", "b"):
        variables.create(name, np.zeros(3, np.float32))
    changes = variables.changes
    assert changes.stamp(("a",)) is not None
    return variables, changes, changes.seen(("a",))


def test_nothing_has_happened():
    _, changes, seen = made()
    assert changes.unchanged(seen)
    assert changes.unchanged(seen)


@pytest.mark.parametrize("happens", [
    lambda variables: variables["a"],
    lambda variables: variables.assign("a", 1.0),
    lambda variables: variables.__setitem__("a", np.ones(3)),
    lambda variables: list(variables.values()),
    lambda variables: dict(variables),
    lambda variables: variables.changes.everything(),
    lambda variables: variables.changes.writer(frozenset("a")),
])  # fmt: skip
def test_what_may_have_changed_an_array_is_seen(happens):
    variables, changes, seen = made()
    happens(variables)
    assert not changes.unchanged(seen)


def test_a_writer_counts_up():
    variables, changes, _ = made()
    mine, other = changes.writer(frozenset("a")), changes.writer(frozenset("b"))
    seen = changes.seen(("a",))
    other[0] += 1
    assert changes.unchanged(seen)
    mine[0] += 1
    assert not changes.unchanged(seen)
    assert set(variables) == {"a", "b"}


def test_somebody_holds_an_array_who_did_not_ask():
    arrays = {"a": np.zeros(3)}
    changes = Changes(arrays)
    seen = changes.seen(("a",))
    assert changes.unchanged(seen)
    held = arrays["a"]
    assert not changes.unchanged(seen)
    view = held[1:]
    del held
    assert not changes.unchanged(seen)  # the view holds it
    del view
    assert changes.unchanged(seen)
