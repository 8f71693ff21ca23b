"""``x[key]`` and ``x[key] = value`` against PyTorch: elements, gradients and errors."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import RangeError, ShapeError, UsageError
from tests.eager.random_keys import as_ours, random_key

SHAPES = [(4,), (3, 4), (2, 3, 4), (3, 1, 4, 2), (0, 3)]
ERRORS = (IndexError, ValueError, RuntimeError, TypeError)  # ours are among them, and PyTorch's


def zeros(*shape):
    return pt.tensor(np.zeros(shape, "float32"))


def outcome(work):
    """The arrays that work gives, or None where it raises."""
    try:
        return [None if a is None else np.asarray(a) for a in work()]
    except ERRORS:
        return None


def same(one, two, about):
    assert (one is None) == (two is None), about
    for a, b in zip(one or [], two or [], strict=True):
        assert (a is None) == (b is None), about
        if a is not None:
            assert a.shape == b.shape, about
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=str(about))


def reading(module, x, key):
    a = module.tensor(x)
    a.requires_grad_()
    y = a[key]
    (y * y).sum().backward()
    return [y.detach().numpy(), a.grad.numpy()]


def writing(module, x, key, value):
    a, v = module.tensor(x), module.tensor(value)
    a.requires_grad_()
    v.requires_grad_()
    b = a * 1
    b[key] = v
    (b * b).sum().backward()
    return [b.detach().numpy(), a.grad.numpy(), v.grad.numpy()]


@pytest.mark.parametrize("seed", range(300))
def test_random_keys(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    x, key = rng.standard_normal(shape), random_key(rng, shape)
    got, want = outcome(lambda: reading(pt, x, as_ours(key))), outcome(lambda: reading(torch, x, key))
    same(got, want, (shape, key))
    part = () if want is None else want[0].shape
    thin = tuple(1 if rng.random() < 0.2 else n for n in part)
    for value_shape in ((), thin, thin[1:], (1, *thin)):
        value = rng.standard_normal(value_shape)
        got = outcome(lambda value=value: writing(pt, x, as_ours(key), value))
        same(got, outcome(lambda value=value: writing(torch, x, key, value)), (shape, key, value_shape))


def test_negative_steps_are_those_of_numpy():
    x = np.arange(24.0).reshape(2, 3, 4)
    for key in [
        (slice(None, None, -1),),
        (0, slice(2, None, -2)),
        (..., slice(None, None, -3)),
        (slice(None, None, -1), [0, 2, 2]),
        (None, slice(None), slice(1, None, -1), [1, 0]),
    ]:
        t, mine = pt.tensor(x), x.copy()
        np.testing.assert_array_equal(t[key].numpy(), x[key])
        value = np.arange(x[key].size, dtype=float).reshape(x[key].shape)
        t[key], mine[key] = pt.tensor(value), value
        np.testing.assert_array_equal(t.numpy(), mine)


def test_basic_keys_are_views_and_others_are_copies():
    x = zeros(3, 4)
    for key in [0, slice(1, 3), ..., (slice(None), None), (), pt.tensor(1)]:
        assert x[key]._base is x, key
    for key in [[0, 1], pt.tensor([1]), pt.tensor([True, False, True]), np.array([0])]:
        assert x[key]._base is None, key
    x[1:][0] += 1.0
    assert x.sum().item() == 4


def test_in_place_arithmetic_on_parts():
    x = torch.arange(12.0).reshape(3, 4)
    y = pt.tensor(x.numpy())
    for t, module in ((x, torch), (y, pt)):
        t[1] += 5
        t[:, [0, 3]] *= 2
        t[t > 7] = -1.0
        t[module.tensor([0, 0])] -= 1
        t[0, 0] = 9
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_values_of_other_types_are_cast():
    x = pt.tensor([0, 0, 0])
    x[0], x[1:] = 2.7, pt.tensor([True, False])
    assert x.tolist() == [2, 1, 0]
    x[:2] = [5, 6]
    assert x.tolist() == [5, 6, 0]


@pytest.mark.parametrize(("key", "error", "words"), [
    (5, RangeError, "index 5 is out of range for dim 0 of size 2"),
    ((0, 0, 0, 0), RangeError, "too many indices: 4 for a tensor of 3"),
    ([0, 7], RangeError, "index 7 is out of range for dim 0"),
    (1.5, RangeError, "an index must be an integer"),
    ("a", RangeError, "an index must be an integer"),
    ([[0, 1], [0, 1, 2]], RangeError, "do not broadcast"),
    (slice(None, None, 0), UsageError, "must not be 0"),
    (slice(0, 1.5), UsageError, "must be an integer"),
    (np.array([True]), RangeError, r"mask of shape \[1\]"),
    (np.array([0.5]), RangeError, "integers or bools"),
], ids=range(10))  # fmt: skip
def test_wrong_keys(key, error, words):
    with pytest.raises(error, match=words):
        zeros(2, 3, 4)[key]
    with pytest.raises(error, match=words):
        zeros(2, 3, 4)[key] = 0.0


def test_wrong_values():
    x = zeros(2, 3)
    with pytest.raises(ShapeError, match=r"\[4\] do not broadcast to \[2, 2\]"):
        x[:, [0, 1]] = zeros(4)
    with pytest.raises(ShapeError, match=r"\[2, 3\] cannot take elements of shape \[2\]"):
        x[:] = zeros(2)
    with pytest.raises(UsageError, match="expected a number, a tensor or an array, got 'a'"):
        x[0] = "a"
    w = pt.tensor([0.0, 0.0, 0.0], requires_grad=True)
    with pytest.raises(UsageError, match="leaf"):
        w[0] = 1.0
    with pt.no_grad():
        w[0] = 1.0
    assert w.tolist() == [1, 0, 0]
