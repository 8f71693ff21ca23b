"""Averages of parameters against PyTorch's."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError
from prototorch.optim import swa_utils

torch = pytest.importorskip("torch")
PEER = torch.optim.swa_utils


def models():
    rng = np.random.default_rng(0)
    ours, theirs = pt.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    change(ours, theirs, rng)
    return ours, theirs, rng


def change(ours, theirs, rng):
    """New parameters for both."""
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        value = rng.normal(size=tuple(b.shape)).astype(np.float32)
        a.data, b.data = pt.tensor(value), torch.tensor(value)


@pytest.mark.parametrize("make", [
    lambda m: {}, lambda m: {"multi_avg_fn": m.get_ema_multi_avg_fn(0.7)}, lambda m: {"avg_fn": m.get_ema_avg_fn(0.9)},
    lambda m: {"multi_avg_fn": m.get_swa_multi_avg_fn()}, lambda m: {"avg_fn": lambda a, p, n: a * 0.5 + p * 0.5},
], ids=["mean", "moving", "moving one by one", "mean of all", "own"])  # fmt: skip
def test_averages_are_those_of_pytorch(make):
    ours, theirs, rng = models()
    average, expected = swa_utils.AveragedModel(ours, **make(swa_utils)), PEER.AveragedModel(theirs, **make(PEER))
    for _ in range(4):
        average.update_parameters(ours)
        expected.update_parameters(theirs)
        change(ours, theirs, rng)
    assert list(average.state_dict()) == list(expected.state_dict())
    for a, b in zip(average.state_dict().values(), expected.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6, 1e-6)
    x = rng.normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(average(pt.tensor(x)).detach().numpy(), expected(torch.tensor(x)).detach().numpy(), 1e-5)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_rates_go_to_that_of_the_average(strategy, epochs):
    rates = []
    for module, tensor, utils in ((pt.optim, pt.tensor, swa_utils), (torch.optim, torch.tensor, PEER)):
        optimizer = module.SGD([tensor([1.0], requires_grad=True)], lr=0.4)
        scheduler = utils.SWALR(optimizer, 0.05, epochs, strategy)
        optimizer.step()
        rates.append([])
        for _ in range(8):
            rates[-1] += scheduler.get_last_lr()
            scheduler.step()
    np.testing.assert_allclose(rates[0], rates[1], 1e-12)


def test_statistics_of_normalizations_are_computed_anew():
    x = np.random.default_rng(0).normal(2, 3, size=(12, 4)).astype(np.float32)
    results = []
    for nn, tensor, utils in ((pt.nn, pt.tensor, swa_utils), (torch.nn, torch.tensor, PEER)):
        model = nn.Sequential(nn.BatchNorm1d(4))
        model.eval()
        utils.update_bn([(tensor(x[i : i + 4]), None) for i in range(0, 12, 4)], model)
        assert not model.training
        results.append([model.state_dict()[f"0.running_{name}"].numpy() for name in ("mean", "var")])
    np.testing.assert_allclose(results[0], results[1], 1e-5)
    assert swa_utils.update_bn([], pt.nn.Linear(1, 1)) is None


def test_mistakes_are_errors_in_words():
    ours, _, _ = models()
    with pytest.raises(UsageError, match="one of avg_fn"):
        swa_utils.AveragedModel(ours, avg_fn=max, multi_avg_fn=max)
    with pytest.raises(UsageError, match="decay"):
        swa_utils.get_ema_multi_avg_fn(2)
    optimizer = pt.optim.SGD(ours.parameters())
    for options in ({"anneal_strategy": "step"}, {"anneal_epochs": -1}, {"swa_lr": [1, 2]}):
        with pytest.raises(UsageError):
            swa_utils.SWALR(optimizer, **{"swa_lr": 0.1, **options})
