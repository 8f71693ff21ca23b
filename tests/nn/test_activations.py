"""Activation modules, softmax, distances and affine maps against PyTorch's."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import ShapeError, UsageError
from tests.nn.peers import compare, compare_functions


def x(*shape, seed=0, scale=3.0):
    return np.random.default_rng(seed).standard_normal(shape) * scale


CASES = [
    ("ReLU", (), {}), ("ReLU", (), {"inplace": True}), ("ReLU6", (), {}), ("ReLU6", (True,), {}),
    ("Hardtanh", (), {}), ("Hardtanh", (-2.0, 0.5, True), {}), ("ELU", (), {}), ("ELU", (0.3,), {}),
    ("ELU", (), {"inplace": True}), ("CELU", (), {}), ("CELU", (2.5,), {}), ("SELU", (), {}), ("SELU", (True,), {}),
    ("GELU", (), {}), ("GELU", ("tanh",), {}), ("SiLU", (), {}), ("SiLU", (True,), {}), ("Mish", (), {}),
    ("LeakyReLU", (), {}), ("LeakyReLU", (0.2, True), {}), ("LeakyReLU", (-0.5,), {}), ("Sigmoid", (), {}),
    ("LogSigmoid", (), {}), ("Hardsigmoid", (), {}), ("Hardswish", (), {}), ("Tanh", (), {}), ("Tanhshrink", (), {}),
    ("Softplus", (), {}), ("Softplus", (2.0, 3.0), {}), ("Softsign", (), {}), ("Softshrink", (), {}),
    ("Softshrink", (1.5,), {}), ("Hardshrink", (), {}), ("Threshold", (0.1, 20.0), {}),
    ("Threshold", (0.1, 20.0, True), {}), ("GLU", (), {}), ("GLU", (1,), {}), ("Softmax", (1,), {}),
    ("Softmax", (-1,), {}), ("LogSoftmax", (0,), {}), ("Softmin", (2,), {}), ("PReLU", (), {}), ("PReLU", (4, 0.5), {}),
    ("Identity", (54,), {"unused": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options"), CASES)
def test_elementwise_modules(name, args, options):
    compare(name, args, options, [x(3, 4, 6)])


def test_softmax2d():
    compare("Softmax2d", (), {}, [x(2, 3, 4, 5)])
    compare("Softmax2d", (), {}, [x(3, 4, 5)])


@pytest.mark.parametrize(("name", "args", "shapes"), [
    ("CosineSimilarity", (), [(4, 5), (4, 5)]), ("CosineSimilarity", (0, 1e-3), [(4, 5), (5,)]),
    ("PairwiseDistance", (), [(4, 5), (4, 5)]), ("PairwiseDistance", (1.0, 1e-2, True), [(4, 5), (5,)]),
    ("Linear", (4, 3), [(2, 4)]), ("Linear", (4, 3, False), [(4,)]), ("Linear", (4, 3), [(2, 5, 3, 4)]),
    ("Bilinear", (4, 3, 2), [(5, 4), (5, 3)]), ("Bilinear", (4, 3, 2, False), [(2, 5, 4), (2, 5, 3)]),
])  # fmt: skip
def test_distances_and_affine_maps(name, args, shapes):
    compare(name, args, {}, [x(*shape, seed=k) for k, shape in enumerate(shapes)])


@pytest.mark.parametrize(("name", "args", "options"), [
    ("normalize", (x(4, 5),), {}), ("normalize", (x(4, 5),), {"p": 1.0, "dim": 0}),
    ("normalize", (x(4, 5),), {"p": 3.0, "dim": -1, "eps": 8.0}), ("cosine_similarity", (x(4, 5), x(4, 5, seed=1)), {}),
    ("pairwise_distance", (x(4, 5), x(4, 5, seed=1)), {"p": 3.0}), ("pdist", (x(5, 3),), {}),
    ("pdist", (x(5, 3),), {"p": 1.0}), ("softmax", (x(3, 4),), {"dim": 0, "dtype": None}), ("glu", (x(3, 4),), {}),
    ("hardtanh", (x(4),), {"min_val": -0.5}), ("prelu", (x(3, 4), np.array([0.2, 0.3, 0.4, 0.5])), {}),
    ("linear", (x(3, 4), x(4)), {}), ("celu", (x(4, 3),), {"alpha": -1.5}),
])  # fmt: skip
def test_functions(name, args, options):
    compare_functions(name, args, options)


def test_in_place_functions_overwrite_their_argument():
    for name, args in (
        ("relu_", ()),
        ("elu_", (0.5,)),
        ("leaky_relu_", (0.1,)),
        ("hardtanh_", ()),
        ("celu_", ()),
        ("selu_", ()),
        ("threshold_", (0.0, 9.0)),
    ):
        mine, theirs = pt.tensor(x(5)), torch.tensor(x(5))
        assert getattr(pt.nn.functional, name)(mine, *args) is mine
        getattr(torch.nn.functional, name)(theirs, *args)
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12)


def test_gumbel_softmax_has_one_hot_rows_and_soft_gradients():
    pt.manual_seed(0)
    logits = pt.tensor(x(6, 4), requires_grad=True)
    y = pt.nn.functional.gumbel_softmax(logits, tau=0.5, hard=True)
    assert y.numpy().sum(1).tolist() == [1.0] * 6
    assert set(np.unique(y.numpy().round(12))) <= {0.0, 1.0}
    (y * y).sum().backward()
    assert np.isfinite(logits.grad.numpy()).all()
    assert logits.grad.numpy().any()


@pytest.mark.parametrize(("error", "call", "message"), [
    (ShapeError, lambda F: F.linear(pt.zeros(2, 3), pt.zeros(4, 5)), "the last dimensions must be the same"),
    (UsageError, lambda F: F.relu([1.0]), "relu: expected a tensor, got list"),
    (UsageError, lambda F: F.gelu(pt.zeros(2), approximate="erf"), "must be 'none' or 'tanh', got 'erf'"),
    (ShapeError, lambda F: F.glu(pt.zeros(3)), "must have an even size"),
    (ShapeError, lambda F: F.prelu(pt.zeros(2, 3), pt.zeros(2)), r"expected a weight \[1\] or \[3\], got \[2\]"),
    (UsageError, lambda F: F.hardtanh(pt.zeros(2), 1.0, -1.0), "expected min_val <= max_val"),
    (AttributeError, lambda F: F.reluu, "prototorch.nn.functional.reluu does not exist. Did you mean"),
    (AttributeError, lambda F: pt.nn.DataParallel, "prototorch.nn.DataParallel does not exist: one process"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call(pt.nn.functional)
