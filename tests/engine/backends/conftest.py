"""What the tests of kernels share."""

import pytest


@pytest.fixture(params=(512, 256, 128))
def bits(request):
    """Native kernels of each width of vector that this machine has."""
    checker = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
    if request.param > checker.widest():
        pytest.skip(f"no vectors of {request.param} bits here")
    with checker.vector_bits(request.param):
        yield request.param
