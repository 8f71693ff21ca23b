"""squeeze_, unsqueeze_, t_, transpose_: the tensor itself takes another shape, as in PyTorch."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import GradientError, UsageError

CHANGES = [("squeeze_", ()), ("squeeze_", (1,)), ("unsqueeze_", (0,)), ("unsqueeze_", (-1,)), ("transpose_", (0, 2)),
           ("swapaxes_", (0, 1)), ("swapdims_", (1, 2))]  # fmt: skip


def run(module, change, args):
    x = module.tensor(np.arange(6.0).reshape(2, 1, 3), requires_grad=True)
    y = x * 2
    part = y[1]
    y[0, 0, 0] = 5.0
    assert getattr(y, change)(*args) is y
    y.mul_(3)
    z = y.reshape(-1)
    (z * z).sum().backward()
    return y.detach().numpy(), x.grad.numpy(), part.detach().numpy(), y.stride()


@pytest.mark.parametrize(("change", "args"), CHANGES, ids=str)
def test_elements_and_gradients(change, args):
    for got, want in zip(run(pt, change, args), run(torch, change, args), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_matrix_is_transposed_in_place():
    x = pt.tensor([[1.0, 2.0], [3.0, 4.0]])
    view = x[0]
    x.t_()
    assert x.tolist() == [[1, 3], [2, 4]]
    x[1, 0] = 9.0
    assert view.tolist() == [1, 9]


def test_a_view_takes_another_shape():
    x = pt.tensor(np.zeros((2, 3)))
    row = x[1]
    row.unsqueeze_(0)
    row[0, 2] = 4.0
    assert row.shape == (1, 3)
    assert x[1, 2].item() == 4


def test_a_leaf_with_a_gradient_is_refused():
    w = pt.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match="unsqueeze_: a leaf tensor that requires a gradient"):
        w.unsqueeze_(0)
    with pt.no_grad():
        w.unsqueeze_(0)
    assert w.shape == (1, 2)
    (w * w).sum().backward()
    assert w.grad.tolist() == [[2, 4]]


def test_a_view_from_before_cannot_be_changed_on_the_tape():
    x = pt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) * 1
    view = x[0]
    x.t_()
    with pytest.raises(UsageError, match="another shape or memory in place"):
        view.mul_(2.0)
