"""Each optimizer against PyTorch's: parameters and states after many steps, random settings, groups, dtypes."""

import numpy as np
import pytest

import prototorch as pt

torch = pytest.importorskip("torch")
from tests.optim.optimizer_peers import Peers, as_torch, check_states  # noqa: E402

DECAY, EITHER, BETAS = (0, 0.1), (False, True), ((0.9, 0.999), (0.5, 0.8))
COMMON = {"lr": (0.001, 0.1), "weight_decay": DECAY, "maximize": EITHER}
CHOICES = {
    "SGD": {**COMMON, "momentum": (0, 0.5, 0.9)},
    "Adam": {**COMMON, "betas": BETAS, "eps": (1e-8, 1e-2), "amsgrad": EITHER, "decoupled_weight_decay": EITHER},
    "AdamW": {**COMMON, "amsgrad": EITHER},
    "Adamax": {**COMMON, "betas": BETAS},
    "NAdam": {**COMMON, "betas": BETAS, "momentum_decay": (0.004, 0.1), "decoupled_weight_decay": EITHER},
    "RAdam": {**COMMON, "betas": BETAS, "decoupled_weight_decay": EITHER},
    "RMSprop": {**COMMON, "alpha": (0.99, 0.5), "momentum": (0, 0.9), "centered": EITHER, "eps": (1e-8, 0.1)},
    "Adagrad": {**COMMON, "lr_decay": (0, 0.1), "initial_accumulator_value": (0, 0.5)},
    "Adadelta": {**COMMON, "rho": (0.9, 0.5), "eps": (1e-6, 0.1)},
    "Rprop": {
        "lr": (0.01, 0.1), "etas": ((0.5, 1.2), (0.3, 2.0)), "step_sizes": ((1e-6, 50), (1e-3, 0.1)),
        "maximize": EITHER,
    },
    "ASGD": {**COMMON, "lambd": (1e-4, 0.1), "alpha": (0.75, 0.5), "t0": (1e6, 10, 0)},
}  # fmt: skip


def draw(name, rng):
    """Settings by chance."""
    found = {key: values[rng.integers(len(values))] for key, values in CHOICES[name].items()}
    if name == "SGD" and found["momentum"]:
        found["nesterov"] = bool(rng.integers(2))
        found["dampening"] = 0 if found["nesterov"] else float(rng.choice([0, 0.3]))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", CHOICES)
def test_fifty_steps_are_those_of_pytorch(name, seed):
    rng = np.random.default_rng(seed)
    groups, settings = [draw(name, rng) for _ in range(1 + seed % 3)], {}
    if name == "Adagrad":  # PyTorch takes no notice of a group's own
        settings = {"initial_accumulator_value": max(g.pop("initial_accumulator_value") for g in groups)}
    peers = Peers(name, groups, seed, **settings)
    peers.step(25)
    peers.step(5, absent=(1, 3))  # their states lag behind from here on
    for group, other in zip(peers.optimizer.param_groups, peers.peer.param_groups, strict=True):
        group["lr"] = other["lr"] = group["lr"] / 3
    peers.step(20)
    peers.check()


@pytest.mark.parametrize("name", CHOICES)
def test_float32_parameters_stay_near_pytorchs(name):
    peers = Peers(name, [{}], dtype="float32")
    peers.step(50)
    peers.check(rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("name", CHOICES)
def test_states_go_to_pytorch_and_back(name):
    settings = draw(name, np.random.default_rng(3))
    peers = Peers(name, [settings, {}], 3)
    peers.step(5)
    ours, theirs = peers.optimizer.state_dict(), peers.peer.state_dict()
    fresh = Peers(name, [settings, {}], 4)
    for a, b in zip((*fresh.ours, *fresh.theirs), (*peers.ours, *peers.theirs), strict=True):
        a.data = b.detach().clone()
    fresh.optimizer.load_state_dict(theirs)
    fresh.peer.load_state_dict(as_torch(ours))
    fresh.step(5)
    fresh.check()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_half_precision_parameters_follow_float32_ones(name, dtype):
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=20).astype(np.float32), rng.normal(size=(10, 20)).astype(np.float32)
    ends = []
    for kind in (dtype, "float32"):
        p = pt.tensor(start, dtype=getattr(pt, kind), requires_grad=True)
        optimizer = getattr(pt.optim, name)([p], lr=0.05)
        for gradient in gradients:
            p.grad = pt.tensor(gradient, dtype=getattr(pt, kind))
            optimizer.step()
        ends.append(p.numpy().astype(np.float32))
    np.testing.assert_allclose(ends[0], ends[1], atol=0.03 if dtype == "bfloat16" else 0.005)


def test_parameters_that_are_not_contiguous_are_updated():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(4, 6))
    gradient = rng.normal(size=(6, 4))
    ours, theirs = pt.ops.transpose(pt.tensor(base), order=(1, 0)), torch.tensor(base).t().detach()
    ours.requires_grad = theirs.requires_grad = True
    optimizer, peer = pt.optim.Adam([ours]), torch.optim.Adam([theirs])
    for _ in range(3):
        ours.grad, theirs.grad = pt.tensor(gradient), torch.tensor(gradient)
        optimizer.step()
        peer.step()
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), 1e-12)
    ours.grad = pt.ops.transpose(pt.tensor(gradient.T.copy()), order=(1, 0))
    theirs.grad = torch.tensor(gradient)
    optimizer.step()
    peer.step()
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), 1e-12)


def test_hyperparameters_may_change_at_any_time():
    peers = Peers("Adam", [{"lr": 0.1}])
    peers.step(3)
    for optimizer in (peers.optimizer, peers.peer):
        optimizer.param_groups[0].update(betas=(0.5, 0.7), weight_decay=0.1, eps=0.1)
    peers.step(3)
    peers.check()
    peers = Peers("SGD", [{"lr": 0.1}])
    peers.step(3)
    for optimizer in (peers.optimizer, peers.peer):
        optimizer.param_groups[0]["momentum"] = 0.5
    peers.step(3)
    peers.check()


def test_parameters_whose_array_is_replaced_go_on():
    p = pt.tensor([1.0, 2.0], requires_grad=True)
    optimizer = pt.optim.SGD([p], lr=1.0)
    p.grad = pt.tensor([0.5, 0.5])
    optimizer.step()
    p.data = pt.tensor([10.0, 20.0])
    optimizer.step()
    assert p.numpy().tolist() == [9.5, 19.5]


def test_a_step_counts_as_a_change_in_place():
    p = pt.tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    version = p._version
    p.grad = pt.tensor([0.5, 0.5])
    pt.optim.SGD([p], lr=1.0).step()
    assert p._version > version
    with pytest.raises(Exception, match=r"changed|modified|overwritten|version"):
        loss.backward()


def test_two_optimizers_of_one_state_dict_are_equal():
    peers = Peers("Adam", [{}])
    peers.step(2)
    other = pt.optim.Adam(peers.ours)
    other.load_state_dict(peers.optimizer.state_dict())
    check_states(other.state_dict(), peers.peer.state_dict())
    peers.step(1)
    assert float(other.state_dict()["state"][0]["step"]) == 2  # a copy
