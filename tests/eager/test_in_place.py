"""In-place changes: versions, views, and the places of both on the tape."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.eager.in_place import assign
from prototorch.errors import UsageError


def test_a_view_shares_memory_and_version():
    x = pt.tensor(np.arange(6.0).reshape(2, 3))
    row = x[1]
    assign(row, pt.tensor(0.5))
    assert x.tolist() == [[0, 1, 2], [0.5, 0.5, 0.5]]
    assert x._version == row._version == 1
    assert row._base is x


def test_gradients_flow_through_a_write_to_a_view():
    x = pt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    middle = y[1:2]
    assign(middle, middle * 8)
    (y * y).sum().backward()
    assert y.tolist() == [2, 32, 6]
    assert x.grad.tolist() == [8, 2 * 32 * 8 * 2, 24]


def test_an_overwritten_saved_value_is_named():
    x = pt.tensor([1.0, 2.0], requires_grad=True)
    y = ops.exp(x)
    z = y * 3
    assign(y, pt.tensor(0.0))
    with pytest.raises(
        UsageError, match=r"the gradient of exp needs its output 0, a tensor float32\[2\].*version 1, exp"
    ):
        z.sum().backward()


def test_an_addition_saves_nothing():
    x = pt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    z = y + 3
    assign(y, pt.tensor(0.0))
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_leaf_is_changed_without_recording_alone():
    w = pt.tensor([1.0, 2.0], requires_grad=True)
    for target in (w, w[0]):
        with pytest.raises(UsageError, match="leaf tensor that requires a gradient is changed in place"):
            assign(target, pt.tensor(0.0))
    with pt.no_grad():
        assign(w, w - 1)
    assert w.is_leaf
    assert w.requires_grad
    assert w.tolist() == [0, 1]


def test_a_second_backward_needs_the_graph():
    x = pt.tensor([2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8
    with pytest.raises(UsageError, match="retain_graph=True"):
        y.backward()


def test_a_graph_that_nobody_uses_is_freed_at_once():
    gc.disable()
    try:
        x = pt.tensor(np.ones(3), requires_grad=True)
        y = ops.exp(x * 2)
        memory = weakref.ref(y)
        y.sum().backward()
        del y
        assert memory() is None
    finally:
        gc.enable()
