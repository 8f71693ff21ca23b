"""Clipping of gradients and parameters as vectors, against PyTorch's."""

import math

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TrainingError, UsageError

torch = pytest.importorskip("torch")
SHAPES = [(3, 4), (5,), (), (2, 1, 2)]


def parameters(seed=0, scale=1.0, absent=(), dtype="float32"):
    """Parameters of ours and PyTorch's with equal gradients."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number, shape in enumerate(SHAPES):
        value, gradient = (rng.normal(size=shape).astype(dtype) for _ in range(2))
        ours, theirs = pt.tensor(value, requires_grad=True), torch.tensor(value, requires_grad=True)
        if number not in absent:
            ours.grad, theirs.grad = (
                pt.tensor(gradient * np.array(scale, dtype)),
                torch.tensor(gradient * np.array(scale, dtype)),
            )
        pairs.append((ours, theirs))
    return [p for p, _ in pairs], [p for _, p in pairs]


def check(ours, theirs, rtol=1e-6):
    for a, b in zip(ours, theirs, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 0.5, 3, math.inf, "inf"], ids=str)
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_norms_and_scaled_gradients_are_those_of_pytorch(norm_type, scale):
    ours, theirs = parameters(scale=scale, absent=(1,))
    memory = ours[0].grad
    total = pt.nn.utils.clip_grad_norm_(iter(ours), 1.5, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(iter(theirs), 1.5, norm_type)
    np.testing.assert_allclose(total.numpy(), expected.numpy(), 1e-6)
    check(ours, theirs)
    assert ours[0].grad is memory


def test_values_are_clipped_as_in_pytorch():
    ours, theirs = parameters(scale=2.0)
    pt.nn.utils.clip_grad_value_(ours, 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    check(ours, theirs, 0)
    pt.nn.utils.clip_grad_value_(ours[0], 0.1)
    torch.nn.utils.clip_grad_value_(theirs[0], 0.1)
    check(ours, theirs, 0)


def test_one_parameter_and_none_at_all():
    ours, theirs = parameters()
    assert float(pt.nn.utils.clip_grad_norm_(ours[0], 0.1)) == pytest.approx(
        float(torch.nn.utils.clip_grad_norm_(theirs[0], 0.1))
    )
    check(ours, theirs)
    assert float(pt.nn.utils.clip_grad_norm_([], 1.0)) == 0
    assert float(pt.nn.utils.get_total_norm([pt.tensor([3.0]), pt.tensor([4.0])])) == 5


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_norm_that_is_not_finite_may_be_an_error(value):
    ours, theirs = parameters()
    ours[0].grad, theirs[0].grad = pt.tensor(np.full((3, 4), value, np.float32)), torch.full((3, 4), value)
    with pytest.raises(TrainingError, match="order 2"):
        pt.nn.utils.clip_grad_norm_(ours, 1.0, error_if_nonfinite=True)
    pt.nn.utils.clip_grad_norm_(ours, 1.0)
    torch.nn.utils.clip_grad_norm_(theirs, 1.0)
    check(ours, theirs)


def test_mistakes_are_errors_in_words():
    with pytest.raises(UsageError, match=r"expected tensors, got a builtins\.int"):
        pt.nn.utils.clip_grad_norm_([3], 1.0)
    with pytest.raises(UsageError, match="max_norm must be a number"):
        pt.nn.utils.clip_grad_norm_(parameters()[0], "much")
    with pytest.raises(UsageError, match="no parameters"):
        pt.nn.utils.parameters_to_vector([])
    with pytest.raises(UsageError, match=r"have 22 elements, and the vector has the shape \[3\]"):
        pt.nn.utils.vector_to_parameters(pt.tensor([1.0, 2.0, 3.0]), parameters()[0])
    with pytest.raises(TypeError, match="takes a tensor"):
        pt.nn.utils.vector_to_parameters([1.0], parameters()[0])


def test_parameters_become_a_vector_and_parameters_again():
    ours, theirs = parameters()
    vector, expected = pt.nn.utils.parameters_to_vector(ours), torch.nn.utils.parameters_to_vector(theirs)
    assert np.array_equal(vector.numpy(), expected.detach().numpy())
    (vector * vector).sum().backward()
    assert np.allclose(ours[1].grad.numpy(), parameters()[0][1].grad.numpy() + 2 * ours[1].numpy())
    other = pt.tensor(np.arange(22, dtype=np.float32))
    pt.nn.utils.vector_to_parameters(other, ours)
    torch.nn.utils.vector_to_parameters(torch.arange(22.0), theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.requires_grad
        assert np.array_equal(a.numpy(), b.detach().numpy())
