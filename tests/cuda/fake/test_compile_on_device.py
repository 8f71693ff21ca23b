"""Compiled functions of tensors on a device: the plan of the CUDA backend, captured, equal to the CPU's.

The fake device runs its work when the host waits for it: what a call does to arrays out of order gives other numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn, optim
from prototorch.eager import interpreter
from prototorch.errors import UsageError
from tests.cuda.fake.fake_cuda import use_fake_cuda


@pytest.fixture(autouse=True)
def gpu():
    """The interpreter of "cuda", of a fake device."""
    with use_fake_cuda():
        yield interpreter.interpreter_for("cuda")


def log_of(gpu):
    return [entry[0] for entry in gpu.backend.device.log]


def normal(*shape, seed=0):
    return pt.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_a_function_of_arguments_stays_on_the_device(gpu):
    function = pt.compile(lambda x, y: (x @ y).tanh().sum(1))
    x, y = normal(4, 5), normal(5, 3, seed=1)
    expected = pt.compile(lambda x, y: (x @ y).tanh().sum(1))(x, y)
    device_x, device_y = x.to("cuda"), y.to("cuda")
    for k in range(6):
        start = len(gpu.backend.device.log)
        result = function(device_x, device_y)
        calls = log_of(gpu)[start:]
        assert result.device.type == "cuda"
        assert {"download", "overwrite"}.isdisjoint(calls), k
    assert calls.count("graph") == 1  # captured: one launch
    assert function.num_plans == 1
    np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), rtol=1e-6)


def test_results_are_kept_and_new_elements_are_read(gpu):
    function = pt.compile(lambda x: x * 2 + 1)
    x = normal(3, 4).to("cuda")
    results = []
    for _ in range(5):
        results.append(function(x))
        x += 1
    first = results[0].cpu().numpy()
    for k, one in enumerate(results):
        np.testing.assert_allclose(one.cpu().numpy(), first + 2 * k, rtol=1e-5)


def test_arguments_that_are_not_contiguous(gpu):
    function = pt.compile(lambda x: x @ x)
    x = normal(4, 4)
    device_x = x.to("cuda")
    for _ in range(4):
        result = function(device_x.T)
    np.testing.assert_allclose(result.cpu().numpy(), (x.T @ x.T).numpy(), rtol=1e-5)


METHODS = [("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"amsgrad": True}), ("RMSprop", {}), ("ASGD", {})]


@pytest.mark.parametrize(("name", "options"), METHODS, ids=[n for n, _ in METHODS])
def test_a_whole_training_step(gpu, name, options):
    """Forward, backward and the optimizer's step are one captured plan, whose states are the module's weights."""

    def train(device, compiled):
        pt.manual_seed(0)
        layers = nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 2)
        net = nn.Sequential(*layers).to(device)
        method, loss_of = getattr(optim, name)(net.parameters(), lr=0.01, **options), nn.MSELoss()

        def step(x, y):
            method.zero_grad()
            loss = loss_of(net(x), y)
            loss.backward()
            method.step()
            return loss.detach()

        run, losses = pt.compile(step) if compiled else step, []
        for k in range(8):
            x, y = normal(4, 6, seed=k).to(device), normal(4, 2, seed=k + 100).to(device)
            losses.append(run(x, y).item())
            if k == 5:
                method.param_groups[0]["lr"] = 0.003
        return losses, [p.cpu().numpy() for p in net.state_dict().values()]

    expected, weights = train("cpu", True)
    for compiled in (False, True):
        losses, found = train("cuda", compiled)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        for a, b in zip(weights, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert log_of(gpu).count("graph") >= 4


def test_gradients_flow_through_it(gpu):
    net = nn.Linear(5, 3)
    twin = nn.Linear(5, 3)
    twin.load_state_dict(net.state_dict())
    twin.to("cuda")
    function, x = pt.compile(twin), normal(4, 5)
    (net(x).tanh() ** 2).sum().backward()
    for _ in range(4):
        twin.zero_grad()
        device_x = x.to("cuda")
        device_x.requires_grad = True
        (function(device_x).tanh() ** 2).sum().backward()
    assert device_x.grad.device.type == "cuda"
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(b.grad.cpu().numpy(), a.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_changes_in_place_of_arguments_and_captured_tensors(gpu):
    total = pt.zeros(4, device="cuda")
    matrix = pt.zeros(3, 4, device="cuda")
    row = matrix[1]

    def function(x, y):
        total.add_(x)
        row.add_(x * 2)
        y.mul_(3)

    compiled = pt.compile(function)
    x, y = pt.arange(4, dtype=pt.float32).to("cuda"), pt.ones(4, device="cuda")
    for _ in range(4):
        compiled(x, y)
    assert total.cpu().tolist() == [0, 4, 8, 12]
    assert matrix.cpu().tolist() == [[0] * 4, [0, 8, 16, 24], [0] * 4]
    assert y.cpu().tolist() == [81] * 4
    with pytest.raises(UsageError, match="shares its memory"):
        compiled(x, total)


def test_weights_that_others_change_between_the_calls(gpu):
    weight = normal(3, 3).to("cuda")
    function, x = pt.compile(lambda x: x @ weight), normal(2, 3, seed=1)
    for _ in range(5):
        np.testing.assert_allclose(function(x.to("cuda")).cpu().numpy(), (x @ weight.cpu()).numpy(), rtol=1e-4)
        weight *= 1.5


def test_a_function_without_arguments_runs_where_its_tensors_are(gpu):
    weight = normal(3, 3).to("cuda")
    function = pt.compile(lambda: weight.sum() * 2)
    for _ in range(4):
        result = function()
    assert result.device.type == "cuda"
    np.testing.assert_allclose(result.item(), weight.cpu().numpy().sum() * 2, rtol=1e-5)


def test_random_numbers_are_those_of_the_uncompiled_function(gpu):
    def draw(x):
        return nn.functional.dropout(x, 0.5)

    x = pt.ones(64).to("cuda")
    pt.manual_seed(3)
    expected = [draw(x).cpu().tolist() for _ in range(4)]
    compiled = pt.compile(draw)
    pt.manual_seed(3)
    assert [compiled(x).cpu().tolist() for _ in range(4)] == expected


def test_scalars_of_the_host_beside_tensors_of_the_device(gpu):
    scale = pt.tensor(2.0)
    function = pt.compile(lambda x: x * scale)
    x = pt.ones(3).to("cuda")
    for k in range(4):
        assert function(x).cpu().tolist() == [2.0 + k] * 3
        scale += 1


def test_tensors_of_two_devices_are_refused(gpu):
    x, y = normal(3), normal(3).to("cuda")
    function = pt.compile(lambda x, y: x + y)
    with pytest.raises(UsageError, match="tensors of one device, and gets some on cpu and cuda:0"):
        function(x, y)
    with pytest.raises(UsageError, match="tensors of one device"):
        pt.compile(lambda y: x + y)(y)


def test_one_function_serves_both_devices(gpu):
    function, x = pt.compile(lambda x: x.exp().sum()), normal(6)
    assert function(x).item() == pytest.approx(function(x.to("cuda")).item(), rel=1e-6)
    assert function.num_plans == 2
