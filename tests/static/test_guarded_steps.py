"""A step of an optimizer in a static graph changes nothing where what it trains would not be finite."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TrainingError


@pytest.mark.parametrize("fault", ["loss", "update"])
def test_a_step_that_is_not_finite_is_undone(fault):
    x = pt.Input((2,))
    w, count = pt.Variable(np.ones((2, 1), np.float32), name="w"), pt.Variable(0.0, trainable=False, name="count")
    loss = (pt.sqrt(x @ w) if fault == "loss" else x @ w).sum()
    step = pt.optimizers.SGD(0.1 if fault == "loss" else 3e38, momentum=0.9).minimize(loss, [w])
    graph = pt.Graph(x, loss, [step, count.assign_add(1.0)])
    graph(np.full((1, 2), 0.0 if fault == "update" else 1.0, np.float32))
    before = w.value
    assert np.isfinite(before).all()
    with pytest.raises(TrainingError, match=r"would make 'w'.* not finite.*nothing has been changed"):
        graph(np.full((1, 2), -1.0 if fault == "loss" else 100.0, np.float32))
    np.testing.assert_array_equal(w.value, before)
    assert count.value == 1


def test_a_loss_that_is_not_finite_is_refused_where_the_weights_stay_finite():
    x = pt.Input((2,))
    w = pt.Variable(np.ones((2, 1), np.float32), name="w")
    loss = (x @ w).sum() * 0.0 + x.sum().log().detach()
    graph = pt.Graph(x, loss, [pt.optimizers.SGD(0.1).minimize(loss, [w])])
    graph(np.ones((1, 2), np.float32))
    with pytest.raises(TrainingError, match=r"the loss is nan, .* nothing has been changed"):
        graph(np.full((1, 2), -1.0, np.float32))
    np.testing.assert_array_equal(w.value, np.ones((2, 1)))
