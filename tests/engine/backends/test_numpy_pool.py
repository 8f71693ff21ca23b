"""Pooling kernels against the plain bodies, over awkward shapes."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import max_pool, max_pool_grad
from tests.engine.backends.kernel_check import check, plain

# x, kernel, strides, pads, ceil
CASES = {
    "alexnet": ((2, 3, 13, 13), (3, 3), (2, 2), ((0, 0), (0, 0)), False),
    "lenet": ((2, 3, 8, 8), (2, 2), (2, 2), ((0, 0), (0, 0)), False),
    "ceil": ((2, 3, 14, 12), (3, 3), (2, 2), ((0, 0), (0, 0)), True),
    "stride 1, padded": ((2, 3, 7, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), False),
    "asymmetric": ((2, 3, 7, 9), (3, 2), (2, 3), ((2, 1), (0, 1)), False),
    "stride > kernel": ((2, 3, 11, 13), (2, 3), (5, 4), ((0, 0), (1, 0)), False),
    "wide": ((1, 1, 9, 40), (4, 7), (3, 5), ((1, 0), (3, 3)), True),
    "one place": ((2, 3, 5, 4), (1, 1), (2, 1), ((0, 0), (0, 0)), False),
    "whole": ((3, 5, 7, 6), (7, 6), (1, 1), ((0, 0), (0, 0)), False),
    "one element": ((1, 1, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), False),
    "one dimension": ((2, 3, 17), (3,), (2,), ((1, 0),), False),
    "three dimensions": ((2, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), ((1, 0), (1, 1), (0, 1)), True),
    "many places": ((1, 2, 20, 21), (17, 18), (2, 1), ((0, 0), (4, 0)), False),
    "no image": ((0, 3, 7, 7), (3, 3), (2, 2), ((0, 0), (0, 0)), False),
}


@pytest.fixture(params=["usual blocks", "small blocks"], autouse=True)
def blocks(request, monkeypatch):
    """Everything once more with one row at a time."""
    if request.param == "small blocks":
        monkeypatch.setattr(max_pool, "BLOCK_ELEMENTS", 1)


def prepared(case, dtype="float32"):
    shape, kernel, strides, pads, ceil = CASES[case]
    x = np.asarray(np.random.default_rng(0).normal(size=shape), dtype)
    return x, {"kernel": kernel, "strides": strides, "pads": pads, "ceil": ceil}


@pytest.mark.parametrize("case", CASES)
def test_max_pool(case):
    x, attrs = prepared(case)
    check("max_pool", x, **attrs)
    check("max_pool", np.round(x), **attrs)  # equals: the first wins
    check("max_pool", np.full_like(x, -np.inf), **attrs)


@pytest.mark.parametrize("case", ["alexnet", "asymmetric", "whole", "three dimensions"])
def test_max_pool_of_odd_numbers(case):
    x, attrs = prepared(case)
    x.reshape(-1)[::7] = np.nan
    x.reshape(-1)[3::11] = np.inf
    x.reshape(-1)[5::3] = -np.inf
    check("max_pool", x, **attrs)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparsest", [0, 100])
def test_max_unpool(case, sparsest, monkeypatch):
    monkeypatch.setattr(max_pool_grad, "_MAX_VECTOR_SPARSITY", sparsest)  # slices, or vectors
    x, attrs = prepared(case)
    number = plain("max_pool", [x], attrs)[1]
    g = np.asarray(np.random.default_rng(1).normal(size=number.shape), "float32")
    check("max_pool_grad", g, number, size=x.shape[2:], **attrs, rtol=1e-6)
    if g.size:
        g.reshape(-1)[0], g.reshape(-1)[-1] = np.nan, np.inf
        check("max_pool_grad", g, number, size=x.shape[2:], **attrs, rtol=1e-6)


@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_avg_pool_and_its_adjoint(case, include_pad):
    x, attrs = prepared(case)
    attrs["include_pad"] = include_pad
    # At most 306 terms are added in another order: float32 rounding.
    check("avg_pool", x, **attrs, rtol=1e-5, atol=1e-6)
    g = plain("avg_pool", [x], attrs)[0] + np.float32(1)
    check("avg_pool_grad", g, size=x.shape[2:], **attrs, rtol=1e-5, atol=1e-6)


def test_avg_pool_keeps_numbers_that_are_not_finite_where_they_are():
    x, attrs = prepared("asymmetric")
    x[0, 1, 3, 3], x[1, 2, 0, 0] = np.nan, np.inf
    check("avg_pool", x, **attrs, rtol=1e-5, atol=1e-6)


def test_in_double():
    x, attrs = prepared("ceil", "float64")
    check("max_pool", x, **attrs)
    check("avg_pool", x, **attrs, rtol=1e-14, atol=1e-14)
