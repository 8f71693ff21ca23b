"""Every layer case of real Caffe, forward and backward, in float32 and float64."""

from __future__ import annotations

import pytest

from prototorch.interop.caffe.site import known_types
from prototorch.interop.caffe.translate import translate_net
from tests.caffe.golden import CASE_NAMES, Case, check_backward, check_forward, make_net

assert translate_net  # registers the translators

#: types of layers that have no translator yet
MISSING_TYPES = {
    "DummyData",
    "Filter",
    "HDF5Output",
    "Parameter",
    "Python",
    "Silence",
}


def test_the_cases_are_there() -> None:
    assert len(CASE_NAMES) == 129


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_case(name: str, dtype: str) -> None:
    case = Case(name)
    missing = {layer["type"] for layer in case.message["layer"]} - set(known_types())
    if missing and missing <= MISSING_TYPES:
        pytest.skip(f"no translator: {missing}")
    net = make_net(case, dtype)
    check_forward(case, net, dtype)
    if case.meta["backward"]:
        check_backward(case, net, dtype)
