"""What all optimizers have in common: groups, states, hooks, closures, repr, and mistakes in words; as in PyTorch."""

import copy
import pickle

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError

torch = pytest.importorskip("torch")


def leaf(*shape):
    return pt.tensor(np.ones(shape, np.float32), requires_grad=True)


def stepped(name="Adam", **settings):
    p = leaf(2, 3)
    optimizer = getattr(pt.optim, name)([p], **settings)
    p.grad = pt.tensor(np.full((2, 3), 0.5, np.float32))
    optimizer.step()
    return optimizer, p


@pytest.mark.parametrize("name", [n for n in pt.optim.__all__ if n[0].isupper() and n not in ("Optimizer", "LBFGS")])
def test_settings_and_their_defaults_are_those_of_pytorch(name):
    ours, theirs = getattr(pt.optim, name)([leaf(1)]), getattr(torch.optim, name)([torch.ones(1, requires_grad=True)])
    assert ours.defaults == theirs.defaults
    assert repr(ours) == repr(theirs)


def test_groups_have_their_own_settings_and_the_rest_by_default():
    first, second, third = leaf(1), leaf(2), leaf(3)
    optimizer = pt.optim.SGD([{"params": first, "lr": 0.5}, {"params": [second]}], lr=0.1, momentum=0.9)
    optimizer.add_param_group({"params": iter([third]), "momentum": 0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1, 0.1]
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9, 0]
    assert [g["params"] for g in optimizer.param_groups] == [[first], [second], [third]]


def test_parameters_may_come_with_names():
    optimizer = pt.optim.SGD([("a", leaf(1)), ("b", leaf(2))], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    with pytest.raises(UsageError, match="names"):
        optimizer.add_param_group({"params": [leaf(3)]})


@pytest.mark.parametrize(("make", "kind", "message"), [
    (lambda: pt.optim.SGD([]), UsageError, "empty list"), (lambda: pt.optim.SGD(leaf(1)), TypeError, "iterable"),
    (lambda: pt.optim.SGD([np.ones(2)]), TypeError, "numpy.ndarray"),
    (lambda: pt.optim.SGD([leaf(1) * 2]), UsageError, "leaf"),
    (lambda: pt.optim.SGD([{"lr": 1}]), UsageError, "'params'"),
    (lambda: pt.optim.SGD([{"params": {leaf(1)}}]), TypeError, "order"),
    (lambda: pt.optim.SGD([leaf(1)], lr=-1), UsageError, "lr must be at least 0, got -1"),
    (lambda: pt.optim.SGD([leaf(1)], lr="a"), UsageError, "lr must be a number"),
    (lambda: pt.optim.SGD([leaf(1)], lr=float("nan")), UsageError, "lr must be"),
    (lambda: pt.optim.SGD([leaf(1)], nesterov=True), UsageError, "nesterov"),
    (lambda: pt.optim.Adam([leaf(1)], betas=(1.0, 0.9)), UsageError, r"betas\[0\] must be in 0 .. 1 \(excluded\)"),
    (lambda: pt.optim.Adam([leaf(1)], betas=0.9), UsageError, "two numbers"),
    (lambda: pt.optim.Adam([leaf(1)], eps=-1), UsageError, "eps"),
    (lambda: pt.optim.Adam([leaf(1)], capturable=True), UsageError, r"Adam\(capturable=True\)"),
    (lambda: pt.optim.AdamW([leaf(1)], differentiable=True), UsageError, r"AdamW\(differentiable=True\)"),
    (lambda: pt.optim.Rprop([leaf(1)], etas=(1.2, 0.5)), UsageError, "etas"),
    (lambda: pt.optim.Adadelta([leaf(1)], rho=2), UsageError, "rho"),
    (lambda: pt.optim.SparseAdam, UsageError, "no sparse gradients"), (lambda: pt.optim.Muon, UsageError, "AdamW"),
    (lambda: pt.optim.Adm, AttributeError, "Did you mean 'Adam'"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_mistakes_are_errors_in_words(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_one_parameter_belongs_to_one_group():
    p = leaf(1)
    for groups in ([p, p], [{"params": [p]}, {"params": [p]}]):
        with pytest.raises(UsageError, match="twice"):
            pt.optim.SGD(groups)


def test_gradients_of_another_kind_are_refused():
    p = leaf(3)
    p.grad = pt.tensor(np.ones(3, np.float32))
    p.data = pt.tensor(np.ones(2, np.float32))
    with pytest.raises(UsageError, match=r"float32 \[3\].*float32 \[2\]"):
        pt.optim.SGD([p]).step()


def test_gradients_are_forgotten_or_filled_with_zeros():
    optimizer, p = stepped()
    gradient = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.numpy().tolist() == [[0] * 3] * 2
    assert gradient.numpy().tolist() == [[0] * 3] * 2  # the same memory, as in PyTorch
    optimizer.zero_grad()
    assert p.grad is None
    before = p.numpy().copy()
    optimizer.step()
    assert np.array_equal(p.numpy(), before)


@pytest.mark.parametrize("name", [n for n in pt.optim.__all__ if n[0].isupper() and n not in ("Optimizer", "LBFGS")])
def test_a_closure_computes_the_gradients_and_gives_the_loss(name):
    p = leaf(3)
    optimizer = getattr(pt.optim, name)([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with pt.no_grad():
        losses = [float(optimizer.step(closure)) for _ in range(5)]
    assert losses[0] == 3
    assert losses == sorted(losses, reverse=True)


def test_hooks_are_called_around_steps_and_state_dicts():
    optimizer, _ = stepped()
    calls = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, options: calls.append(("pre", args, options))),
        optimizer.register_step_post_hook(lambda o, args, options: calls.append(("post", o is optimizer))),
        optimizer.register_state_dict_pre_hook(lambda o: calls.append("saved")),
        optimizer.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, d: {k: v for k, v in d.items() if k != "extra"}),
        optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded")),
    ]
    optimizer.step(closure=None)
    assert calls == [("pre", (), {"closure": None}), ("post", True)]
    saved = optimizer.state_dict()
    assert saved["extra"] == 1
    optimizer.load_state_dict(saved)
    assert calls[2:] == ["saved", "loaded"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert "extra" not in optimizer.state_dict()
    assert len(calls) == 4


def test_a_pre_hook_may_change_the_arguments():
    optimizer, _ = stepped("SGD", lr=1.0)
    optimizer.register_step_pre_hook(lambda o, args, options: ((lambda: 7,), {}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, options: 3)
    with pytest.raises(UsageError, match="step_pre_hook"):
        optimizer.step()


def test_state_dicts_that_do_not_fit_are_refused():
    optimizer, _ = stepped()
    saved = optimizer.state_dict()
    others = [pt.optim.Adam([leaf(2, 3), leaf(1)]), pt.optim.Adam([{"params": [leaf(2, 3)]}, {"params": [leaf(1)]}])]
    for other, message in zip(
        others, ("has 1 parameters, that of the optimizer 2", "has 1 parameter groups"), strict=True
    ):
        with pytest.raises(UsageError, match=message):
            other.load_state_dict(saved)
    with pytest.raises(UsageError, match=r"'exp_avg' of the state dict has shape \[2, 3\], its parameter \[3, 2\]"):
        pt.optim.Adam([leaf(3, 2)]).load_state_dict(saved)
    with pytest.raises(UsageError, match="no 'state'"):
        optimizer.load_state_dict({"param_groups": []})


def test_optimizers_are_copied_and_pickled():
    optimizer, p = stepped()
    for clone in (copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
        other = clone(optimizer)
        (q,) = other.param_groups[0]["params"]
        assert q is not p
        for one, params in ((optimizer, p), (other, q)):
            params.grad = pt.tensor(np.ones((2, 3), np.float32))
            one.step()
        assert np.array_equal(p.numpy(), q.numpy())


def test_a_method_of_ones_own():
    class Signs(pt.optim.Optimizer):
        def __init__(self, params, lr=pt.optim.optimizer.required):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1
                    with pt.no_grad():
                        p.data = p.data - group["lr"] * pt.ops.sign(p.grad)

    p = leaf(2)
    with pytest.raises(UsageError, match="lr"):
        Signs([p])
    optimizer, calls = Signs([p], lr=0.25), []
    optimizer.register_step_post_hook(lambda *args: calls.append(1))
    p.grad = pt.tensor([3.0, -3.0])
    optimizer.step()
    assert p.numpy().tolist() == [0.75, 1.25]
    assert calls == [1]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}}
    with pytest.raises(NotImplementedError, match="must define step"):
        pt.optim.Optimizer([leaf(1)], {}).step()


@pytest.mark.parametrize("level", ["plain", "numpy", "native"])
def test_levels_of_the_cpu_agree(level, monkeypatch):
    from prototorch.optim import fused_update

    expected = stepped(lr=0.1, weight_decay=0.1, amsgrad=True)[1].numpy().copy()
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    fused_update.cpu_backend.cache_clear()
    try:
        np.testing.assert_allclose(stepped(lr=0.1, weight_decay=0.1, amsgrad=True)[1].numpy(), expected, 1e-6)
    finally:
        fused_update.cpu_backend.cache_clear()


def test_a_learning_rate_may_be_a_tensor():
    for rate in (0.25, pt.tensor(0.25)):
        assert stepped("SGD", lr=rate)[1].numpy()[0, 0] == 0.875
