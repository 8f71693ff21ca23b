"""Pooling against PyTorch's: random windows, positions of maxima, unbatched inputs, mistakes."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import RangeError, ShapeError, UsageError
from tests.nn.peers import compare, compare_functions


def x(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def random_case(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel = tuple(int(n) for n in rng.integers(2, 4, rank))
    kernel = kernel[0] if rng.random() < 0.4 else kernel
    options = {"kernel_size": kernel, "ceil_mode": bool(rng.random() < 0.4)}
    if rng.random() < 0.7:
        options["stride"] = int(rng.integers(1, 4))
    kind = str(rng.choice(["MaxPool", "AvgPool", "LPPool"]))
    if kind == "LPPool":
        options["norm_type"] = float(rng.choice([2.0, 3.0]))
        options["kernel_size"] = options["kernel_size"] if rank == 2 else 3
    else:
        options["padding"] = int(rng.integers(0, 2))
    if kind == "MaxPool":
        options["dilation"] = int(rng.choice([1, 1, 2]))
        options["return_indices"] = bool(rng.random() < 0.5)
    if kind == "AvgPool":
        options["count_include_pad"] = bool(rng.random() < 0.5)
        if rank > 1 and rng.random() < 0.3:
            options["divisor_override"] = 5
    shape = ([2] if rng.random() < 0.8 else []) + [3, *(int(n) for n in rng.integers(6, 9, rank))]
    inputs = [np.abs(x(*shape, seed=seed)) + 0.1 if kind == "LPPool" else x(*shape, seed=seed)]
    return f"{kind}{rank}d", (), options, inputs


@pytest.mark.parametrize("seed", range(60))
def test_random_windows(seed):
    compare(*random_case(seed), tolerance=1e-9)


@pytest.mark.parametrize(("name", "args", "shape"), [
    ("AdaptiveAvgPool1d", (3,), (2, 3, 8)), ("AdaptiveAvgPool2d", ((3, None),), (2, 3, 7, 5)),
    ("AdaptiveAvgPool2d", (1,), (3, 7, 5)), ("AdaptiveAvgPool3d", ((2, 3, 4),), (2, 2, 5, 4, 6)),
    ("AdaptiveMaxPool1d", (3,), (2, 3, 8)), ("AdaptiveMaxPool1d", (5, True), (3, 7)),
    ("AdaptiveMaxPool2d", ((3, 2), True), (2, 3, 7, 5)), ("AdaptiveMaxPool2d", ((None, 8), True), (2, 3, 7, 5)),
    ("AdaptiveMaxPool3d", (2, True), (2, 2, 5, 4, 3)), ("AdaptiveAvgPool2d", (7,), (1, 2, 3, 3)),
])  # fmt: skip
def test_adaptive_pooling(name, args, shape):
    compare(name, args, {}, [x(*shape)])


@pytest.mark.parametrize(("rank", "kernel", "stride", "padding"), [(1, 2, None, 0), (2, 2, 2, 0), (2, 3, 2, 1),
                                                                   (3, 2, None, 0)])  # fmt: skip
def test_unpooling_puts_maxima_back(rank, kernel, stride, padding):
    data = x(2, 3, *(6,) * rank)

    def run(lib, leaf):
        pool = getattr(lib.nn, f"MaxPool{rank}d")(kernel, stride, padding, return_indices=True)
        y, at = pool(leaf)
        back = getattr(lib.nn, f"MaxUnpool{rank}d")(kernel, stride, padding)(y * 2, at, output_size=(6,) * rank)
        (back * back).sum().backward()
        return back, leaf.grad

    mine, theirs = pt.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    for a, b in zip(run(pt, mine), run(torch, theirs), strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12)


def test_maxima_that_are_equal_and_not_a_number():
    data = np.array([[[1.0, 1.0, 0.0, np.nan, 2.0, 2.0]]])
    compare_functions("max_pool1d", (data, 2), {"return_indices": True})
    compare_functions("max_pool1d", (np.zeros((1, 2, 6)), 3), {"return_indices": True, "dilation": 2, "stride": 1})


@pytest.mark.parametrize(("error", "call", "message"), [
    (UsageError, lambda: nn.MaxPool2d(2, padding=2)(pt.zeros(1, 1, 4, 4)), "at most half of the kernel size 2"),
    (UsageError, lambda: nn.MaxPool2d((2, 2, 2))(pt.zeros(1, 1, 4, 4)), "kernel_size must be one integer or 2"),
    (ShapeError, lambda: nn.MaxPool2d(5)(pt.zeros(1, 1, 4, 4)), "pool size 5 exceeds the padded input size 4"),
    (ShapeError, lambda: nn.AvgPool2d(2)(pt.zeros(4, 4)), "expected an input of 4 dimensions"),
    (UsageError, lambda: nn.AdaptiveAvgPool2d((1, 2, 3))(pt.zeros(1, 1, 4, 4)), "one integer or 2"),
    (ShapeError, lambda: nn.MaxPool1d(3, dilation=3)(pt.zeros(1, 1, 4)), "a window of 7 elements"),
    (RangeError, lambda: nn.MaxUnpool1d(2)(pt.zeros(1, 1, 2), pt.tensor([[[0, 9]]])), r"in 0 .. 3, got 9"),
    (UsageError, lambda: nn.functional.avg_pool2d(pt.zeros(1, 1, 4, 4), 2, divisor_override=0), "must not be 0"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call()
