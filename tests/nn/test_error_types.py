"""Errors are of PyTorch's types as well as of ours."""

import pytest

import prototorch as pt
from prototorch.errors import DataError, MissingMethodError, UsageError, WeightsError

torch = pytest.importorskip("torch")


def label_loss(name, label):
    return lambda m: getattr(m.nn.functional, name)(m.zeros(2, 3), m.tensor([0, label]))


CASES = {
    "a missing weight": (WeightsError, lambda m: m.nn.Linear(2, 2).load_state_dict({"weight": m.zeros(2, 2)})),
    "a shape": (WeightsError, lambda m: m.nn.Linear(2, 2).load_state_dict(m.nn.Linear(3, 2).state_dict())),
    "cross_entropy 3": (DataError, label_loss("cross_entropy", 3)),
    "cross_entropy -1": (DataError, label_loss("cross_entropy", -1)),
    "nll_loss 7": (DataError, label_loss("nll_loss", 7)),
    "no forward": (MissingMethodError, lambda m: m.nn.Module()(1)),
    "embedding": (IndexError, lambda m: m.nn.Embedding(3, 2)(m.tensor([3]))),
    "index": (IndexError, lambda m: m.zeros(3)[3]),
    "one_hot": (RuntimeError, lambda m: m.nn.functional.one_hot(m.tensor([3]), 3)),
    "two shapes": (RuntimeError, lambda m: m.zeros(2) + m.zeros(3)),
}


@pytest.mark.parametrize("name", CASES)
def test_types(name):
    own, call = CASES[name]
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        call(torch)
    with pytest.raises(theirs.type) as ours:
        call(pt)
    assert isinstance(ours.value, own)
    assert issubclass(UsageError, RuntimeError)  # what tensors on different devices raise
