"""Each schedule of learning rates against PyTorch's: rates and momenta over many epochs, states, mistakes."""

import copy
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError

torch = pytest.importorskip("torch")
OURS, THEIRS = pt.optim.lr_scheduler, torch.optim.lr_scheduler


class Peers:
    """Two optimizers with two groups, and a schedule of each that ``make(schedulers, optimizer)`` gives."""

    def __init__(self, make, name="SGD", rates=(0.4, 0.05), **settings):
        self.optimizers = []
        for module, tensor in ((pt.optim, pt.tensor), (torch.optim, torch.tensor)):
            groups = [{"params": [tensor([1.0], requires_grad=True)], "lr": rate} for rate in rates]
            self.optimizers.append(getattr(module, name)(groups, **settings))
        with warnings.catch_warnings():  # PyTorch warns of its own first steps of nested schedules
            warnings.filterwarnings("ignore", "Detected call of")
            self.schedulers = [make(m, o) for m, o in zip((OURS, THEIRS), self.optimizers, strict=True)]
        for optimizer in self.optimizers:
            optimizer.step()

    def check(self):
        ours, theirs = self.optimizers
        for a, b in zip(ours.param_groups, theirs.param_groups, strict=True):
            for key in ("lr", "momentum", "initial_lr", "betas"):
                assert (key in a) == (key in b)
                if key in b:
                    assert a[key] == pytest.approx(b[key], rel=1e-12, abs=1e-15)
        ours, theirs = self.schedulers
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12, abs=1e-15)
        assert getattr(ours, "last_epoch", None) == getattr(theirs, "last_epoch", None)

    def run(self, epochs, *args):
        self.check()
        for optimizer in self.optimizers:
            optimizer.step()
        for _ in range(epochs):
            for scheduler in self.schedulers:
                scheduler.step(*args)
            self.check()


SCHEDULES = {
    "lambda": lambda m, o: m.LambdaLR(o, lambda e: 0.9**e),
    "lambdas": lambda m, o: m.LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: 0.5]),
    "multiplicative": lambda m, o: m.MultiplicativeLR(o, lambda e: 0.95 + 0.01 * e),
    "step": lambda m, o: m.StepLR(o, 3, 0.5), "step of one": lambda m, o: m.StepLR(o, 1),
    "milestones": lambda m, o: m.MultiStepLR(o, [7, 2, 2, 12], 0.3), "constant": lambda m, o: m.ConstantLR(o),
    "constant half": lambda m, o: m.ConstantLR(o, 0.5, 3), "linear": lambda m, o: m.LinearLR(o),
    "linear down": lambda m, o: m.LinearLR(o, 1.0, 0.1, 7), "exponential": lambda m, o: m.ExponentialLR(o, 0.8),
    "polynomial": lambda m, o: m.PolynomialLR(o), "square": lambda m, o: m.PolynomialLR(o, 9, 2.0),
    "cosine": lambda m, o: m.CosineAnnealingLR(o, 5), "cosine floor": lambda m, o: m.CosineAnnealingLR(o, 7, 0.01),
    "restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 4),
    "growing restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 2, 2, 0.01),
    "cyclic": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, cycle_momentum=False),
    "cyclic groups": lambda m, o: m.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 3, 5, "triangular2", cycle_momentum=False),
    "cyclic range": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "cyclic function": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, cycle_momentum=False),
    "one cycle": lambda m, o: m.OneCycleLR(o, 0.5, 25, cycle_momentum=False),
    "one linear cycle": lambda m, o: m.OneCycleLR(o, [0.5, 0.3], epochs=5, steps_per_epoch=5, anneal_strategy="linear",
                                                  cycle_momentum=False),
    "three phases": lambda m, o: m.OneCycleLR(o, 0.5, 30, three_phase=True, pct_start=0.4, div_factor=10.0,
                                              cycle_momentum=False),
    "sequence": lambda m, o: m.SequentialLR(o, [m.ConstantLR(o, 0.1, 2), m.ExponentialLR(o, 0.9)], [4]),
    "warm-up": lambda m, o: m.SequentialLR(o, [m.LinearLR(o, 0.1, 1.0, 4), m.CosineAnnealingLR(o, 8), m.StepLR(o, 2)],
                                           [4, 12]),
    "chain": lambda m, o: m.ChainedScheduler([m.ConstantLR(o, 0.1, 4), m.ExponentialLR(o, 0.9)]),
    "nested": lambda m, o: m.SequentialLR(o, [m.ChainedScheduler([m.LinearLR(o), m.StepLR(o, 2)]),
                                              m.PolynomialLR(o, 6)], [5]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_pytorch(name):
    Peers(SCHEDULES[name]).run(24)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("make", [
    lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4), lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, base_momentum=[0.5, 0.7]),
    lambda m, o: m.OneCycleLR(o, 0.1, 20), lambda m, o: m.OneCycleLR(o, 0.1, 20, three_phase=True, max_momentum=0.9),
], ids=["cyclic", "cyclic groups", "one cycle", "three phases"])  # fmt: skip
def test_momenta_are_those_of_pytorch(make, optimizer):
    Peers(make, optimizer, **({"momentum": 0.9} if optimizer == "SGD" else {})).run(20)


@pytest.mark.parametrize("settings", [
    {}, {"mode": "max"}, {"threshold_mode": "abs", "threshold": 0.05}, {"mode": "max", "threshold_mode": "abs"},
    {"cooldown": 2, "patience": 1}, {"min_lr": [0.1, 0.001], "factor": 0.5}, {"patience": 0, "eps": 0.01},
], ids=str)  # fmt: skip
def test_a_plateau_is_that_of_pytorch(settings):
    peers = Peers(lambda m, o: m.ReduceLROnPlateau(o, **{"patience": 2, **settings}))
    for value in np.round(np.random.default_rng(0).normal(size=40).cumsum() * 0.05 + 1, 2):
        peers.schedulers[0].step(pt.tensor(value))
        peers.schedulers[1].step(torch.tensor(value))
        peers.check()
        assert peers.schedulers[0].num_bad_epochs == peers.schedulers[1].num_bad_epochs


@pytest.mark.parametrize(
    "name", [n for n in SCHEDULES if "sequence" not in n and n not in ("warm-up", "chain", "nested")]
)
def test_an_epoch_may_be_given(name):
    peers = Peers(SCHEDULES[name])
    for epoch in (3, 10, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peers.run(1, epoch)


def test_a_fraction_of_an_epoch_is_not_deprecated():
    peers = Peers(SCHEDULES["growing restarts"])
    for epoch in (0.25, 1.5, 2.0, 6.7, 13.9):
        peers.run(1, epoch)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on_from_its_state(name):
    first, second = Peers(SCHEDULES[name]), Peers(SCHEDULES[name])
    first.run(7)
    state = copy.deepcopy(first.schedulers[0].state_dict())
    second.run(7)
    fresh = SCHEDULES[name](OURS, second.optimizers[0])
    second.optimizers[0].load_state_dict(first.optimizers[0].state_dict())
    fresh.load_state_dict(state)
    second.schedulers[0] = fresh
    second.run(6)


@pytest.mark.parametrize("name", ["step", "milestones", "exponential", "cosine", "linear", "polynomial", "lambda"])
def test_training_is_resumed_with_the_last_epoch(name):
    makers = {
        "step": lambda m, o, e: m.StepLR(o, 3, 0.5, e), "milestones": lambda m, o, e: m.MultiStepLR(o, [2, 9], 0.3, e),
        "exponential": lambda m, o, e: m.ExponentialLR(o, 0.8, e),
        "cosine": lambda m, o, e: m.CosineAnnealingLR(o, 9, 0.0, e),
        "linear": lambda m, o, e: m.LinearLR(o, 0.1, 1.0, 9, e),
        "polynomial": lambda m, o, e: m.PolynomialLR(o, 9, 1.0, e),
        "lambda": lambda m, o, e: m.LambdaLR(o, lambda epoch: 0.9**epoch, e),
    }  # fmt: skip
    peers = Peers(lambda m, o: makers[name](m, o, -1))
    peers.run(5)
    peers.schedulers = [makers[name](m, o, 4) for m, o in zip((OURS, THEIRS), peers.optimizers, strict=True)]
    peers.run(6)


def test_a_group_without_an_initial_rate_cannot_be_resumed():
    optimizer = pt.optim.SGD([pt.tensor([1.0], requires_grad=True)])
    with pytest.raises(UsageError, match="initial_lr"):
        OURS.StepLR(optimizer, 3, last_epoch=4)


def test_stepping_the_schedule_first_is_warned_of():
    optimizer = pt.optim.SGD([pt.tensor([1.0], requires_grad=True)])
    scheduler = OURS.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match=r"before optimizer.step"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_rates_that_are_tensors_keep_their_memory():
    rate = pt.tensor(0.5)
    optimizer = pt.optim.SGD([pt.tensor([1.0], requires_grad=True)], lr=rate)
    optimizer.step()
    scheduler = OURS.ExponentialLR(optimizer, 0.5)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25
    assert scheduler.get_last_lr() == [0.25]


def test_a_schedule_of_ones_own():
    class Halves(OURS.LRScheduler):
        def get_lr(self):
            return [base / (1 + self.last_epoch) for base in self.base_lrs]

    optimizer = pt.optim.SGD([pt.tensor([1.0], requires_grad=True)], lr=1.0)
    optimizer.step()
    scheduler = Halves(optimizer)
    rates = []
    for _ in range(3):
        rates += scheduler.get_last_lr()
        scheduler.step()
    assert rates == [1, 1 / 2, 1 / 3]
    with pytest.raises(NotImplementedError, match="get_lr"):
        OURS.LRScheduler(optimizer)


@pytest.mark.parametrize("make", [
    lambda o: OURS.StepLR(o, 0), lambda o: OURS.LambdaLR(o, [lambda e: 1] * 2), lambda o: OURS.ConstantLR(o, 2),
    lambda o: OURS.LinearLR(o, 0), lambda o: OURS.LinearLR(o, 1, 2), lambda o: OURS.CosineAnnealingLR(o, 0),
    lambda o: OURS.CosineAnnealingWarmRestarts(o, 0), lambda o: OURS.CosineAnnealingWarmRestarts(o, 1, 0.5),
    lambda o: OURS.CyclicLR(o, 0.1, 1, mode="square"), lambda o: OURS.CyclicLR(o, [0.1, 1], 1),
    lambda o: OURS.CyclicLR(o, 0.1, 1, scale_mode="epochs"), lambda o: OURS.OneCycleLR(o, 0.1),
    lambda o: OURS.OneCycleLR(o, 0.1, 0), lambda o: OURS.OneCycleLR(o, 0.1, epochs=2, steps_per_epoch=1.5),
    lambda o: OURS.OneCycleLR(o, 0.1, 3, anneal_strategy="x"), lambda o: OURS.OneCycleLR(o, 0.1, 3, pct_start=2.0),
    lambda o: OURS.SequentialLR(o, [], []), lambda o: OURS.SequentialLR(o, [OURS.StepLR(o, 2)], [3]),
    lambda o: OURS.ChainedScheduler([]), lambda o: OURS.ChainedScheduler([OURS.ReduceLROnPlateau(o)]),
    lambda o: OURS.ReduceLROnPlateau(o, "least"), lambda o: OURS.ReduceLROnPlateau(o, factor=1.5),
    lambda o: OURS.ReduceLROnPlateau(o, threshold_mode="x"), lambda o: OURS.ReduceLROnPlateau(o, min_lr=[1, 2]),
    lambda o: OURS.CyclicLR(pt.optim.Adagrad([pt.tensor([1.0], requires_grad=True)]), 0.1, 1),
])  # fmt: skip
def test_wrong_arguments_are_refused(make):
    optimizer = pt.optim.SGD([pt.tensor([1.0], requires_grad=True)], momentum=0.9)
    optimizer.step()
    with pytest.raises(UsageError):
        make(optimizer)


def test_one_cycle_has_an_end():
    optimizer = pt.optim.SGD([pt.tensor([1.0], requires_grad=True)], momentum=0.9)
    optimizer.step()
    scheduler = OURS.OneCycleLR(optimizer, 0.1, 2)
    scheduler.step()
    scheduler.step()
    with pytest.raises(UsageError, match="step 3 of a OneCycleLR of 2 steps"):
        scheduler.step()


def test_a_schedule_needs_an_optimizer():
    for make in (lambda: OURS.StepLR(3, 2), lambda: OURS.LambdaLR(None, abs), lambda: OURS.ReduceLROnPlateau([])):
        with pytest.raises(TypeError, match="optimizer"):
            make()
