"""`prototorch.func` against torch.func: gradients of functions, and modules called with other parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import func, nn
from prototorch.errors import GradientError, PrototorchError, ShapeError, UsageError

X, Y = np.linspace(0.3, 1.7, 6).reshape(2, 3), np.linspace(-1.0, 1.0, 3)


def scalar(a, b):
    return ((a * a * a) * b).sum() + (b * b * b * b).sum()


def of_dict(p, b):
    return {"s": (p["w"].exp() * b).sum(1), "t": [p["v"][0] * b, p["v"][0]]}


def convert(module, value):
    if isinstance(value, dict):
        return {k: convert(module, v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(convert(module, v) for v in value)
    return module.tensor(value) if isinstance(value, np.ndarray) else value


def assert_equal(ours, theirs):
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        ours, theirs = tuple(ours.values()), tuple(theirs.values())
    if isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_equal(a, b)
    else:
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.requires_grad == theirs.requires_grad
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-12)


P = {"w": X, "v": [Y + 2]}


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (lambda m: m.grad(scalar), (X, Y)),
        (lambda m: m.grad(scalar, argnums=1), (X, Y)),
        (lambda m: m.grad(scalar, argnums=(1, 0)), (X, Y)),
        (lambda m: m.grad(scalar, argnums=-1), (X, Y)),
        (lambda m: m.grad(lambda a, b: (a * 2).sum(), (0, 1)), (X, Y)),
        (lambda m: m.grad(lambda p, b: of_dict(p, b)["s"].sum()), (P, Y)),
        (lambda m: m.grad(lambda a: ((a * a).sum(), {"aux": a * 2}), has_aux=True), (X,)),
        (lambda m: m.grad_and_value(scalar), (X, Y)),
        (lambda m: m.grad_and_value(lambda a: ((a * a).sum(), a * 2), has_aux=True), (X,)),
        (lambda m: m.grad(lambda a: m.grad(lambda b: (b * b * b).sum())(a).sum()), (X,)),
        (lambda m: m.grad(lambda a: m.grad(lambda b: (a * b * b * b).sum())(a * 2).sum()), (X,)),
        (lambda m: m.jacrev(lambda a, b: a.exp() * b), (X, Y)),
        (lambda m: m.jacrev(of_dict), (P, Y)),
        (lambda m: m.jacrev(of_dict, argnums=(0, 1)), (P, Y)),
        (lambda m: m.jacrev(lambda a: (a.exp(), a.sum()), has_aux=True), (X,)),
        (lambda m: m.hessian(scalar), (X, Y)),
        (lambda m: m.hessian(scalar, argnums=(0, 1)), (X, Y)),
        (lambda m: m.hessian(lambda a: a.sin()), (Y,)),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_gradients_of_functions_are_those_of_pytorch(make, args, recorded):
    with pt.set_grad_enabled(recorded), torch.set_grad_enabled(recorded):
        assert_equal(make(func)(*convert(pt, args)), make(torch.func)(*convert(torch, args)))


def test_products_with_jacobians():
    ours, theirs = (m.vjp(of_dict, *convert(t, (P, Y))) for m, t in ((func, pt), (torch.func, torch)))
    assert_equal(ours[0], theirs[0])
    for seed in (1.0, 2.0):
        vector = {"s": np.full(2, seed), "t": [Y * seed, Y]}
        assert_equal(ours[1](convert(pt, vector)), theirs[1](convert(torch, vector)))
    three = func.vjp(lambda a: (a * a, a.sum()), pt.tensor(Y), has_aux=True)
    assert_equal(three[2], torch.tensor(Y).sum())
    with pytest.raises(ShapeError, match=r"expected a vector of shape \[3\], got \[2\]"):
        three[1](pt.zeros(2))
    with pytest.raises(UsageError, match="gives 3 tensors, and 1 vectors"):
        ours[1](pt.zeros(2))


@pytest.mark.parametrize("name", ["grad", "jacrev", "vjp"])
def test_results_stay_connected_to_tensors_from_outside(name):
    def gradient(m, t):
        w, x = t.tensor(Y, requires_grad=True), t.tensor(Y + 2, requires_grad=True)
        if name == "vjp":
            (found,) = m.vjp(lambda a: a * a * w, x)[1](t.tensor(Y))
        else:
            found = getattr(m, name)(lambda a: (a * a * w).sum())(x)
        found.sum().backward()
        return found, w.grad, x.grad

    assert_equal(gradient(func, pt), gradient(torch.func, torch))


def pairs(build):
    ours, theirs = build(nn), build(torch.nn)
    ours.load_state_dict({k: pt.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    return ours.double(), theirs.double()


@pytest.mark.parametrize("inputs", [X, (X,)], ids=["a tensor", "a tuple"])
def test_functional_call_gives_the_gradients_of_given_parameters(inputs):
    ours, theirs = pairs(lambda m: m.Sequential(m.Linear(3, 4), m.BatchNorm1d(4), m.Tanh(), m.Linear(4, 1)))

    def run(m, t, net):
        given = {k: p.detach() * 1.5 for k, p in net.named_parameters()}
        net.eval()  # PyTorch refuses changes of captured buffers
        found = m.grad(lambda p: (m.functional_call(net, p, convert(t, inputs)) ** 2).sum())(given)
        net.train()
        given.update({k: b.clone() for k, b in net.named_buffers()})
        m.functional_call(net, given, convert(t, inputs))
        return found, given, list(net.parameters())

    assert_equal(run(func, pt, ours), run(torch.func, torch, theirs))
    assert_equal(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    assert all(isinstance(p, nn.Parameter) for p in ours.parameters())


@pytest.mark.parametrize("build", [
    lambda m: m.LSTM(3, 4, num_layers=2, bidirectional=True), lambda m: m.GRU(3, 2), lambda m: m.Linear(3, 2),
    lambda m: m.TransformerEncoderLayer(3, 1, 8, dropout=0.0),
])  # fmt: skip
def test_functional_call_of_modules(build):
    ours, theirs = pairs(build)
    results = []
    for m, t, net in ((func, pt, ours), (torch.func, torch, theirs)):
        given = {k: p.detach() * 0.5 for k, p in net.named_parameters()}
        out = m.functional_call(net, given, t.tensor(X))
        results.append(out[0] if isinstance(out, tuple) else out)
    np.testing.assert_allclose(results[0].detach().numpy(), results[1].detach().numpy(), rtol=1e-9)


def test_tied_tensors_strictness_and_older_name():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    zeros, x = pt.zeros(3, 3), pt.ones(1, 3)
    y = nn.utils.stateless.functional_call(net, {"0.weight": zeros}, (x,))
    assert y.tolist() == [net[1].bias.tolist()]
    untied = func.functional_call(net, {"0.weight": zeros}, x, tie_weights=False)
    assert untied.tolist() != y.tolist()
    with pytest.raises(UsageError, match="one tensor in the module"):
        func.functional_call(net, {"0.weight": zeros, "1.weight": pt.ones(3, 3)}, x)
    with pytest.raises(UsageError, match=r"0.bias, 1.bias are not given"):
        func.functional_call(net, {"0.weight": zeros}, x, strict=True)


def test_layers_among_the_modules():
    net = nn.Sequential(nn.Linear(3, 4), pt.layers.Dense(2))
    x = pt.ones(1, 3)
    before = net(x)
    zeros = {name: pt.zeros(p.shape) for name, p in net.named_parameters()}
    assert func.functional_call(net, zeros, x).tolist() == [[0, 0]]
    assert net(x).tolist() == before.tolist()
    found = func.grad(lambda p: func.functional_call(net, p, x).sum())(zeros)
    assert found["1.bias"].tolist() == [1, 1]


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda net, x: func.functional_call(net, {"weights": x}, x), UsageError, "Did you mean 'weight'"),
    (lambda net, x: func.functional_call(net, {"weight": 3}, x), UsageError, "expected a tensor for 'weight', got int"),
    (lambda net, x: func.functional_call(net, 3, x), UsageError, "sequence of dicts, got int"),
    (lambda net, x: func.functional_call(net, [{"bias": x}] * 2, x), UsageError, "several of the dicts"),
    (lambda net, x: func.functional_call(max, {}, x), UsageError, "expected a module"),
    (lambda net, x: func.grad(net)(x), GradientError, r"shape \[\], got a tensor of shape \[1, 2\]"),
    (lambda net, x: func.grad(lambda a: 3)(x), GradientError, "got int"),
    (lambda net, x: func.grad(net, 1)(x), UsageError, "out of range for 1"),
    (lambda net, x: func.grad(net, "a")(x), UsageError, "argnums must be"),
    (lambda net, x: func.grad(net, (0, 0))(x), UsageError, "twice"),
    (lambda net, x: func.grad(net)(3.0), UsageError, "got a float"),
    (lambda net, x: func.grad(net, has_aux=True)(x), UsageError, "must give a pair"),
    (lambda net, x: func.jacrev(lambda a: None)(x), UsageError, "got a NoneType"),
])  # fmt: skip
def test_mistakes_are_refused_in_words(call, error, words):
    net = nn.Linear(3, 2)
    with pytest.raises(PrototorchError, match=words) as raised:
        call(net, pt.ones(1, 3))
    assert isinstance(raised.value, error)
    assert net(pt.ones(1, 3)).shape == (1, 2)


def test_names_that_do_not_exist_are_refused_with_a_reason():
    for name in set(torch.func.__all__) - {*func.__all__, "rearrange", "debug_unwrap"}:
        with pytest.raises(AttributeError, match=rf"func\.{name} does not exist: "):
            getattr(func, name)
