"""Static graphs on a GPU, and on the second one where it is there: beside the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.availability import query_driver, unavailable_reason
from prototorch.errors import TrainingError
from tests.cuda.fake.test_graphs_on_device import X, Y, run_steps, training_graph

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

DRIVER = query_driver()
two_gpus = pytest.mark.skipif(DRIVER is not None and DRIVER.gpus < 2, reason="there is one GPU")
GPUS = ["cuda:0", pytest.param("cuda:1", marks=two_gpus)]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop", "Adadelta"])
@pytest.mark.parametrize("device", GPUS)
def test_a_graph_with_variable_layer_and_optimizer(device, optimizer):
    """Captured as a CUDA graph from the third step on."""
    there, here = training_graph(optimizer), training_graph(optimizer, device=device)
    for expected, values in zip(run_steps(there, 8), run_steps(here, 8), strict=True):
        for a, b in zip(expected, values, strict=True):
            np.testing.assert_allclose(b, a, rtol=5e-3, atol=1e-4)
    assert {str(t.device) for t in here.state.tensors()} == {device}
    for a, b in zip(there.variables, here.variables, strict=True):
        np.testing.assert_allclose(b.value, a.value, rtol=2e-2, atol=2e-3, err_msg=a.name)


@pytest.mark.parametrize("device", GPUS)
def test_tensors_of_the_gpu_are_fed_and_given(device):
    x, w = pt.Input((4,)), pt.Variable(np.ones((4, 2), "float32"))
    graph = pt.Graph(x, [x @ w, w, x], device=device)
    for k in range(5):
        fed = pt.tensor(X + k, device=device)
        product, weight, same = graph(fed)
        assert product.device == weight.device == same.device == device
        np.testing.assert_allclose(product.numpy(), (X + k) @ np.ones((4, 2)), rtol=1e-4, atol=1e-5)
        weight += 1  # no view of the graph's memory
        same += 1
    np.testing.assert_array_equal(w.value, np.ones((4, 2)))
    np.testing.assert_allclose(fed.numpy(), X + 4)


def test_moves_and_files(tmp_path):
    expected = [v[0] for v in run_steps(training_graph(), 9)]
    graph = training_graph()
    pt.manual_seed(1)
    losses = []
    for device in ("cuda:0", "cpu", "cuda:0"):
        graph.to(device)
        losses += [np.array(graph(X, Y)[0]) for _ in range(3)]
    np.testing.assert_allclose(losses, expected, rtol=5e-3)
    graph.save(tmp_path / "g.h5")
    other = pt.Graph.load(tmp_path / "g.h5")
    assert other.device == "cuda:0"
    np.testing.assert_allclose(run_steps(other, 2)[1][0], run_steps(graph, 2)[1][0], rtol=5e-3)


def test_a_step_that_is_not_finite_is_undone():
    x, w = pt.Input((2,)), pt.Variable(np.ones((2, 1), "float32"), name="w")
    loss = pt.sqrt(x @ w).sum()
    graph = pt.Graph(x, loss, [pt.optimizers.SGD(0.1, momentum=0.9).minimize(loss)], device="cuda:0")
    for _ in range(4):
        graph(np.ones((1, 2), "float32"))
    before = w.value
    with pytest.raises(TrainingError, match="nothing has been changed"):
        graph(np.full((1, 2), -1, "float32"))
    np.testing.assert_array_equal(w.value, before)


def test_a_scope_around_tensors_and_modules():
    with pt.device("cuda"):
        net, x = pt.nn.LSTM(3, 4), pt.randn(5, 2, 3)
        assert net(x)[0].device == x.device == net.weight_hh_l0.device == "cuda:0"
    assert pt.zeros(1).device == "cpu"
