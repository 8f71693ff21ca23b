"""A module of ours beside PyTorch's of the same name, with the same parameters, on the same inputs."""

from __future__ import annotations

import numpy as np
import torch

import prototorch as pt


def as_ours(value):
    if isinstance(value, np.ndarray):
        made = pt.tensor(value)
        made.requires_grad = value.dtype.kind == "f"
        return made
    return type(value)(as_ours(v) for v in value) if isinstance(value, tuple | list) else value


def as_theirs(value):
    if isinstance(value, np.ndarray):
        made = torch.tensor(value)
        made.requires_grad = value.dtype.kind == "f"
        return made
    return type(value)(as_theirs(v) for v in value) if isinstance(value, tuple | list) else value


def build(name, args, options):
    """Both modules in float64, with PyTorch's first parameters, moved so that none is 0 or 1."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **options).double()
    with torch.no_grad():
        for tensor in [*theirs.parameters(), *theirs.buffers()]:
            if tensor.is_floating_point():
                tensor += 0.1 * torch.rand(tensor.shape, dtype=torch.float64)
    ours = getattr(pt.nn, name)(*args, **options).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours.load_state_dict(theirs.state_dict())) == "<All keys matched successfully>"
    return ours, theirs


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, tuple | list) else [value]


def compare_results(mine, theirs, tolerance=1e-9):
    mine, theirs = flat(mine), flat(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert str(a.dtype) == str(b.dtype).replace("torch.", "")
        assert tuple(a.shape) == tuple(b.shape)
        expected = b.detach().numpy()
        np.testing.assert_allclose(a.numpy(), expected, rtol=tolerance, atol=tolerance)


def compare_gradients(mine, theirs, my_leaves, their_leaves, tolerance=1e-8):
    """Gradients of a weighted sum of all floating-point outputs."""
    mine = [t for t in flat(mine) if str(t.dtype).startswith("float")]
    theirs = [t for t in flat(theirs) if t.is_floating_point()]
    if not any(t.requires_grad for t in theirs):
        return
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal(tuple(t.shape)) for t in theirs]
    sum((a * pt.tensor(w)).sum() for a, w in zip(mine, weights, strict=True)).backward()
    sum((b * torch.tensor(w)).sum() for b, w in zip(theirs, weights, strict=True)).backward()
    for k, (a, b) in enumerate(zip(my_leaves, their_leaves, strict=True)):
        if a.grad is None or b.grad is None:  # None is zeros
            known = b.grad if a.grad is None else a.grad
            assert known is None or not known.numpy().any(), k
            continue
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=tolerance, atol=tolerance)


def compare(name, args=(), options=None, inputs=(), tolerance=1e-9, training=True):
    """Names, text, outputs, gradients and buffers."""
    ours, theirs = build(name, args, options or {})
    assert repr(ours) == repr(theirs)
    ours.train(training), theirs.train(training)
    mine, peers = [as_ours(v) for v in inputs], [as_theirs(v) for v in inputs]
    takes_copy = bool(getattr(theirs, "inplace", False))
    y = ours(*(v * 1 if takes_copy else v for v in mine))
    z = theirs(*(v * 1 if takes_copy else v for v in peers))
    compare_results(y, z, tolerance)
    compare_gradients(
        y,
        z,
        [*(v for v in flat(mine) if isinstance(v, pt.Tensor)), *ours.parameters()],
        [*(v for v in flat(peers) if isinstance(v, torch.Tensor)), *theirs.parameters()],
        tolerance * 10,
    )
    for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12, err_msg=key)


def compare_functions(name, args=(), options=None, tolerance=1e-9):
    """A function of nn.functional beside PyTorch's; arrays in the arguments are tensors."""
    options = options or {}
    mine, peers = [as_ours(v) for v in args], [as_theirs(v) for v in args]
    my_options = {k: as_ours(v) for k, v in options.items()}
    their_options = {k: as_theirs(v) for k, v in options.items()}
    y = getattr(pt.nn.functional, name)(*mine, **my_options)
    z = getattr(torch.nn.functional, name)(*peers, **their_options)
    compare_results(y, z, tolerance)
    leaves = lambda values, kind: [v for v in flat(list(values)) if isinstance(v, kind)]  # noqa: E731
    compare_gradients(
        y,
        z,
        leaves([*mine, *my_options.values()], pt.Tensor),
        leaves([*peers, *their_options.values()], torch.Tensor),
        tolerance * 10,
    )
