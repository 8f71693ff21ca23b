"""L-BFGS against PyTorch's: the same evaluations, one after another."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError

torch = pytest.importorskip("torch")


def rosenbrock(x, y):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + (y * y).sum()


def bowl(x, y):
    return ((x - 1) ** 2).sum() * 3 + ((y + x[0]) ** 4).sum()


def waves(x, y):
    return (x**2).sum() * 0.1 + (x * 3).sin().sum() + (y - 1).cos().sum()


def run(module, tensor, function, steps, **settings):
    rng = np.random.default_rng(1)
    x, y = (tensor(rng.normal(size=shape), requires_grad=True) for shape in ((6,), (2, 3)))
    optimizer = module.LBFGS([x, y], **settings)
    losses, evaluated = [], []

    def closure():
        optimizer.zero_grad()
        loss = function(x, y)
        loss.backward()
        evaluated.append(float(loss.detach()))
        return loss

    for _ in range(steps):
        losses.append(float(optimizer.step(closure).detach()))
    return losses, evaluated, x.detach().numpy(), y.detach().numpy(), optimizer


@pytest.mark.parametrize("settings", [
    {"lr": 0.05}, {"line_search_fn": "strong_wolfe"}, {"line_search_fn": "strong_wolfe", "history_size": 3, "lr": 0.5},
    {"max_iter": 5, "max_eval": 3, "lr": 0.01}, {"line_search_fn": "strong_wolfe", "max_iter": 1},
    {"line_search_fn": "strong_wolfe", "tolerance_grad": 1e-2, "tolerance_change": 1e-3},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("function", [rosenbrock, bowl, waves])
def test_the_course_is_that_of_pytorch(function, settings):
    """Up to where rounding, which grows from step to step, makes a difference: each evaluation."""
    ours = run(pt.optim, pt.tensor, function, 6, **settings)
    theirs = run(torch.optim, torch.tensor, function, 6, **settings)
    count = min(len(theirs[1]), 13)
    np.testing.assert_allclose(ours[1][:count], theirs[1][:count], 1e-9, 1e-9)
    np.testing.assert_allclose(ours[0][-1], theirs[0][-1], 1e-2, 1e-6)


def test_the_minimum_is_found():
    losses, _, x, _, _ = run(pt.optim, pt.tensor, rosenbrock, 10, line_search_fn="strong_wolfe")
    assert losses[-1] < 1e-10
    np.testing.assert_allclose(x, np.ones(6), 1e-5)


def test_it_goes_on_from_its_state():
    *_, x, y, optimizer = run(pt.optim, pt.tensor, bowl, 2, line_search_fn="strong_wolfe", max_iter=2)
    copies = [pt.tensor(a.copy(), requires_grad=True) for a in (x, y)]
    other = pt.optim.LBFGS(copies)
    other.load_state_dict(optimizer.state_dict())

    def closure():
        other.zero_grad()
        loss = bowl(*copies)
        loss.backward()
        return loss

    other.step(closure)
    expected = run(pt.optim, pt.tensor, bowl, 3, line_search_fn="strong_wolfe", max_iter=2)
    np.testing.assert_allclose(copies[0].detach().numpy(), expected[2], 1e-12)


def test_mistakes_are_errors_in_words():
    p = pt.tensor([1.0], requires_grad=True)
    with pytest.raises(UsageError, match="closure"):
        pt.optim.LBFGS([p]).step()
    with pytest.raises(UsageError, match="one parameter group"):
        pt.optim.LBFGS([{"params": [p]}, {"params": [pt.tensor([1.0], requires_grad=True)]}])
    with pytest.raises(UsageError, match="strong_wolfe"):
        pt.optim.LBFGS([p], line_search_fn="armijo")
