"""Tensors as text: PyTorch's digits, columns, cuts and notes."""

import re

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import UsageError

SHAPES = [(), (1,), (5,), (30,), (3, 4), (2, 3, 4), (0,), (0, 3), (40, 40), (1200,), (2, 3, 500), (7, 7, 30)]
DTYPES = ["float32", "float64", "int64", "bool", "int32", "uint8", "float16"]


def random_array(rng, shape):
    a = rng.standard_normal(shape) * [1, 1e-6, 1e9, 100][rng.integers(4)]
    kind = rng.integers(6)
    if kind == 0:
        return np.round(a * 3)
    fill = {1: np.nan, 2: np.inf, 3: 0.0}.get(int(kind))
    return a if fill is None else np.where(rng.random(shape) < 0.4, fill, a)


def same_text(ours, theirs):
    """Equal, but for where a line ends before a note, which has the package's name in it."""
    mine, reference = (re.sub(r",\s+(?=dtype|requires)", ", ", t) for t in (repr(ours), repr(theirs)))
    assert mine.replace("prototorch.", "torch.") == reference


@pytest.mark.parametrize("seed", range(200))
def test_random_tensors(seed):
    rng = np.random.default_rng(seed)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    with np.errstate(all="ignore"):
        a = np.asarray(random_array(rng, SHAPES[seed % len(SHAPES)])).astype(dtype)
    needs = bool(dtype.startswith("float") and rng.random() < 0.3)
    same_text(pt.tensor(a, requires_grad=needs), torch.tensor(a, requires_grad=needs))


def test_the_entry_of_the_tape_is_shown():
    x = pt.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"


@pytest.fixture
def options():
    yield
    pt.set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize("change", [
    {"precision": 2}, {"threshold": 5, "edgeitems": 1}, {"linewidth": 30}, {"sci_mode": True}, {"sci_mode": False},
    {"profile": "short"}, {"profile": "full"},
], ids=str)  # fmt: skip
def test_print_options(change, options):
    pt.set_printoptions(**change)
    torch.set_printoptions(**change)
    for shape in [(3,), (4, 5), (30, 50)]:
        a = np.random.default_rng(0).standard_normal(shape).astype("float32") * 100
        same_text(pt.tensor(a), torch.tensor(a))


def test_wrong_print_options():
    with pytest.raises(UsageError, match="profile must be one of default, short, full"):
        pt.set_printoptions(profile="long")
    with pytest.raises(UsageError, match="precision must be 0 or more"):
        pt.set_printoptions(precision=-1)


def test_format():
    assert f"{pt.tensor(2.5):.3f} {pt.tensor(7):d}" == "2.500 7"
    assert f"{pt.tensor([1, 2])}" == "tensor([1, 2])"
    with pytest.raises(TypeError):
        format(pt.tensor([1, 2]), ".3f")


def test_membership_of_what_is_no_number():
    with pytest.raises(UsageError, match="a tensor has numbers for elements, got 'a'"):
        _ = "a" in pt.tensor([1, 2])
