"""Whole training steps as one plan: modules, losses and the optimizers of `prototorch.optim`."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn, optim

METHODS = [
    ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}), ("Adam", {}),
    ("Adam", {"amsgrad": True}), ("AdamW", {}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}), ("Adagrad", {}), ("Adadelta", {}), ("Rprop", {}), ("ASGD", {}),
]  # fmt: skip


def network() -> nn.Module:
    pt.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def train(name: str, options: dict, compiled: bool) -> tuple[list[float], nn.Module, int]:
    net = network()
    method = getattr(optim, name)(net.parameters(), lr=0.01, **options)
    loss_of = nn.MSELoss()

    def step(x, y):
        method.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        method.step()
        return loss.detach()

    run = pt.compile(step) if compiled else step
    rng = np.random.default_rng(0)
    losses = []
    for k in range(9):
        x, y = (pt.tensor(rng.normal(size=(4, n)).astype(np.float32)) for n in (6, 2))
        losses.append(run(x, y).item())
        if k == 6:
            method.param_groups[0]["lr"] = 0.003
    return losses, net, run.num_plans if compiled else 0


@pytest.mark.parametrize(("name", "options"), METHODS, ids=[f"{n}-{'-'.join(o)}" for n, o in METHODS])
def test_a_compiled_step_trains_as_the_step_does(name: str, options: dict) -> None:
    want, net, _ = train(name, options, compiled=False)
    got, compiled, plans = train(name, options, compiled=True)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    for a, b in zip(net.parameters(), compiled.parameters(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-6)
    assert plans <= 2


def test_a_module_is_compiled_and_stays_what_it_is() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5))
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5))
    twin.load_state_dict(net.state_dict())
    compiled = pt.compile(net)
    rng = np.random.default_rng(0)
    for mode in (True, False, True):
        compiled.train(mode)
        twin.train(mode)
        for _ in range(2):
            x = pt.tensor(rng.normal(size=(8, 3)).astype(np.float32))
            results = []
            for module in (compiled, twin):
                pt.manual_seed(5)
                y = module(x)
                y.sum().backward()
                results.append(y.numpy())
            np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
    for (name, a), b in zip(net.state_dict().items(), twin.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    for a, b in zip(compiled.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-4)
    assert compiled.num_plans == 2
