"""Tensors where Python and NumPy take a sequence, an array or a number; the same meaning as in PyTorch."""

from __future__ import annotations

import re

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_a_tensor_is_iterated_by_its_rows_with_gradients():
    t = pt.tensor(MATRIX, requires_grad=True)
    assert [r.numpy().tolist() for r in t] == MATRIX.tolist() == [r.numpy().tolist() for r in list(t)]
    assert len(t) == 3
    first, *_ = t
    (first * first).sum().backward()
    assert t.grad.numpy().tolist() == [[0, 2], [0, 0], [0, 0]]
    assert list(pt.tensor(np.zeros((0, 2), np.float32))) == []
    assert 5.0 in t
    assert 7.0 not in t


def test_a_tensor_becomes_an_array():
    t = pt.tensor(MATRIX)
    assert np.asarray(t).dtype == np.float32
    np.testing.assert_array_equal(np.asarray(t), MATRIX)
    assert np.array(t, dtype="float64").dtype == np.float64
    copy = np.array(t)
    copy[:] = 9
    np.testing.assert_array_equal(t.numpy(), MATRIX)
    np.testing.assert_array_equal(np.stack([t, t]), np.stack([MATRIX, MATRIX]))
    assert np.asarray([pt.tensor(1.0), pt.tensor(2.0)]).tolist() == [1.0, 2.0]


def test_tensors_are_data():
    made = pt.Sequential([pt.Input((2,)), pt.layers.Dense(1)])
    made.compile("sgd", "mse")
    assert made.fit(pt.tensor(MATRIX), pt.tensor(MATRIX[:, :1]), verbose=0).history["loss"]
    np.testing.assert_array_equal(made.predict(pt.tensor(MATRIX)), made.predict(MATRIX))


def test_one_element_is_a_number():
    assert float(pt.tensor([2.5])) == 2.5
    assert int(pt.tensor([[2.5]])) == 2
    assert bool(pt.tensor([0.5])) is True
    assert bool(pt.tensor(0)) is False
    assert [10, 20, 30][pt.tensor(1)] == 20


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (bool, "bool() takes a tensor of one element, and this one has the shape [3, 2]: reduce it first"),
        (float, "float() takes a tensor of one element, and this one has the shape [3, 2]"),
        (int, "int() takes a tensor of one element, and this one has the shape [3, 2]"),
        (lambda t: t.item(), "item() takes a tensor of one element, and this one has the shape [3, 2]"),
        (lambda t: bool(t[:0]), "bool() takes a tensor of one element, and this one has the shape [0, 2]"),
        (lambda t: range(t), "an index is a tensor of one integer, and this one has the shape [3, 2] and dtype float"),
        (lambda t: len(t.sum()), "len(): the tensor has no dimension"),
        (lambda t: list(t.sum()), "the value has no dimension to iterate over"),
    ],
)
def test_of_more_elements_is_an_error(do, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        do(pt.tensor(MATRIX))
