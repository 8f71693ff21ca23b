"""Post-accumulate hooks run as soon as the gradient of their leaf is there; the nodes before a node."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn

torch = pytest.importorskip("torch")


def chain(library, order):
    """Leaves used at several depths, with hooks of leaves and of intermediate gradients; what ran, in order."""
    weights = [library.tensor([1.0 + k, 2.0], requires_grad=True) for k in range(4)]
    x, events = library.tensor([0.5, -1.0]), []
    for k, w in enumerate(weights):
        w.register_post_accumulate_grad_hook(lambda p, k=k: events.append((f"leaf {k}", p.grad.tolist())))
    for k in order:
        x = x * weights[k]
        x.register_hook(lambda g, k=k: events.append((f"value {k}", g.tolist())))
    (x * x).sum().backward()
    return events


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 0, 2), (3, 3, 1), (2, 0, 1, 2, 3, 1)])
def test_order_is_that_of_pytorch(order):
    theirs, ours = chain(torch, order), chain(pt, order)
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def run_fused(library, net):
    """The optimizer's step in the hook, which frees each gradient before the next one is computed."""
    counts = []
    methods = {p: library.optim.SGD([p], lr=0.1) for p in net.parameters()}

    def step(p):
        counts.append(sum(q.grad is not None for q in net.parameters()))
        methods[p].step()
        methods[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)
    x = library.tensor([[1.0, 2.0, 3.0]])
    for _ in range(3):
        (net(x) ** 2).sum().backward()
    return counts


def test_a_step_in_the_hook_frees_the_gradient():
    ours = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    theirs.load_state_dict({k: torch.tensor(v.numpy().copy()) for k, v in ours.state_dict().items()})
    counts = run_fused(pt, ours)
    run_fused(torch, theirs)
    assert max(counts) == 1
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(value.numpy(), theirs.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6)


def test_hooks_with_inputs_and_removed_hooks():
    a, b = (pt.tensor([2.0], requires_grad=True) for _ in range(2))
    seen = []
    a.register_post_accumulate_grad_hook(lambda p: seen.append("a"))
    handle = b.register_post_accumulate_grad_hook(lambda p: seen.append("b"))
    (a * b).backward(inputs=[b])
    assert seen == ["b"]
    assert a.grad is None
    handle.remove()
    (a * b).backward()
    assert seen == ["b", "a"]
    assert pt.autograd.grad((a * b).sum(), [a, b])[0].item() == 2
    assert seen == ["b", "a"]


def nodes(node):
    return [type(node).__name__, [(None if n is None else nodes(n), k) for n, k in node.next_functions]]


def leaves_below(node):
    for n, _ in node.next_functions:
        if n is not None:
            yield from [n.variable] if type(n).__name__ == "AccumulateGrad" else leaves_below(n)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x * w,
        lambda x, w: (x * 2) @ w,
        lambda x, w: (x.T + w).exp().sum(),
        lambda x, w: x.detach() * w,
    ],
)
def test_next_functions(function):
    results = []
    for library in (torch, pt):
        x = library.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        w = library.tensor([[1.0, 0.5], [3.0, 4.0]], requires_grad=True)
        y = function(x, w)
        results.append(nodes(y.grad_fn))
        leaves = list(leaves_below(y.grad_fn))
        assert leaves
        assert all(any(leaf is v for v in (x, w)) for leaf in leaves)
    assert results[0] == results[1]
