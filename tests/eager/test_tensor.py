"""The eager tape: gradients, second gradients, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.errors import UsageError


def test_backward_adds_to_the_leaves():
    x = pt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [4, 8, 12]


def test_second_and_third_derivatives():
    """x^4: 4 x^3, 12 x^2, 24 x."""
    x = pt.tensor(np.array([0.5, -1.5]), requires_grad=True)
    (g,) = pt.grad((x * x * x * x).sum(), [x], create_graph=True)
    (h,) = pt.grad(g.sum(), [x], create_graph=True)
    (k,) = pt.grad(h.sum(), [x])
    assert np.allclose(g.numpy(), 4 * x.numpy() ** 3)
    assert np.allclose(h.numpy(), 12 * x.numpy() ** 2)
    assert np.allclose(k.numpy(), 24 * x.numpy())


def test_a_value_used_twice_gets_both_gradients():
    x = pt.tensor([2.0], requires_grad=True)
    y = x * 3
    (g,) = pt.grad((y * y + y).sum(), [x])
    assert g.numpy().tolist() == [3 * (2 * 6 + 1)]


def test_gradients_follow_broadcasting_back():
    a = pt.tensor(np.ones((4, 3)), requires_grad=True)
    b = pt.tensor(np.ones((1, 3)), requires_grad=True)
    c = pt.tensor(np.ones(()), requires_grad=True)
    ga, gb, gc = pt.grad((a * b * c).sum(), [a, b, c])
    assert ga.shape == (4, 3)
    assert gb.numpy().tolist() == [[4, 4, 4]]
    assert gc.item() == 12


def test_no_grad_and_detach_cut_the_tape():
    x = pt.tensor([1.0], requires_grad=True)
    with pt.no_grad():
        y = x * 2
    assert not y.requires_grad
    assert not (x.detach() * 2).requires_grad


def test_what_does_not_take_part_gets_zeros():
    x, z = pt.tensor([1.0], requires_grad=True), pt.tensor([5.0, 6.0], requires_grad=True)
    with pytest.raises(UsageError, match="no output depends on input 1"):
        pt.grad((x * 2).sum(), [x, z])
    gx, gz = pt.grad((x * 2).sum(), [x, z], materialize_grads=True)
    assert gx.item() == 2
    assert gz.numpy().tolist() == [0, 0]


def test_numbers_take_the_type_of_the_tensor():
    assert (pt.tensor(np.ones(2, np.float64)) * 2 + 1.5).dtype == "float64"
    assert (pt.tensor([1.0]) / 3).dtype == "float32"
    assert (1 - pt.tensor([1, 2])).dtype == "int64"


@pytest.mark.parametrize(
    ("key", "shape"),
    [(0, (4, 5)), (slice(1, 3), (2, 4, 5)), ((..., -1), (3, 4)), ((slice(None), None), (3, 1, 4, 5)),
     ((slice(None, None, -1), slice(None, None, 2)), (3, 2, 5)), ((1, slice(0, 0)), (0, 5))],
)  # fmt: skip
def test_slicing_is_numpy_s(key, shape):
    array = np.arange(60.0).reshape(3, 4, 5)
    x = pt.tensor(array, requires_grad=True)
    y = x[key]
    assert y.shape == shape
    assert np.array_equal(y.numpy(), array[key])
    (g,) = pt.grad((y * y).sum(), [x])
    wanted = np.zeros_like(array)
    wanted[key] = 2 * array[key]
    assert np.array_equal(g.numpy(), wanted)


def test_what_cannot_be_differentiated_is_reported():
    x = pt.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(UsageError, match="reduce it to a scalar"):
        (x * 2).backward()
    with pytest.raises(UsageError, match="requires_grad=True"):
        pt.grad(pt.tensor([1.0]).sum(), [x])
    with pytest.raises(UsageError, match="has no gradient"):
        pt.tensor([1, 2], requires_grad=True)


def test_types_that_differ_are_refused():
    with pytest.raises(pt.errors.ShapeError, match="cast one of them"):
        ops.add(pt.tensor([1.0]), pt.tensor(np.array([1.0])))
