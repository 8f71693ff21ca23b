"""Steps of optimizers inside compiled functions: the same parameters and states as without."""

import numpy as np
import pytest

import prototorch as pt

rng = np.random.default_rng(0)
X, Y, W = (rng.normal(size=shape).astype(np.float32) for shape in ((8, 5), (8, 3), (5, 3)))
SETTINGS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}), ("Adam", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}), ("Adamax", {}), ("NAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.5, 0.8)}), ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}), ("Adadelta", {}), ("Rprop", {}), ("ASGD", {"lr": 0.1, "t0": 2}),
]  # fmt: skip


def make(name, settings):
    """A training step, and its parameters and optimizer."""
    params = [pt.tensor(W.copy(), requires_grad=True), pt.tensor(np.zeros(3, np.float32), requires_grad=True)]
    optimizer = getattr(pt.optim, name)([{"params": params[:1]}, {"params": params[1:], "weight_decay": 0.0}]
                                        if name != "Rprop" else params, **settings)  # fmt: skip

    def step(x, y):
        optimizer.zero_grad()
        loss = ((x @ params[0] + params[1] - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, params, optimizer


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(SETTINGS)])
def test_a_compiled_step_is_the_step(name, settings):
    x, y = pt.tensor(X), pt.tensor(Y)
    (step, params, optimizer), (other, others, peer) = make(name, settings), make(name, settings)
    compiled = pt.compile(other)
    for number in range(7):
        if number == 4:
            for one in (optimizer, peer):
                one.param_groups[0]["lr"] = 0.02
        loss, expected = compiled(x, y), step(x, y)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    for a, b in zip(others, params, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-4, 1e-6)
    ours, theirs = peer.state_dict()["state"], optimizer.state_dict()["state"]
    assert ours.keys() == theirs.keys()
    for number, state in theirs.items():
        assert ours[number].keys() == state.keys()
        for key in state:
            np.testing.assert_allclose(ours[number][key].numpy(), state[key].numpy(), 1e-4, 1e-6)


def test_eager_and_compiled_steps_take_turns():
    x, y = pt.tensor(X), pt.tensor(Y)
    (step, params, _), (other, others, _) = make("Adam", {"lr": 0.1}), make("Adam", {"lr": 0.1})
    compiled = pt.compile(other)
    for number in range(6):
        (compiled if number % 3 else other)(x, y)
        step(x, y)
    np.testing.assert_allclose(others[0].numpy(), params[0].numpy(), 1e-5)
