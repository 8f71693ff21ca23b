"""Convolutions against PyTorch's: random fields, unbatched inputs, padding modes, first values, mistakes."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import ShapeError, UsageError
from tests.nn.peers import compare, compare_functions


def x(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def random_case(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 2, 3]))

    def pick(low, high):
        several = rng.random() < 0.6
        return tuple(int(n) for n in rng.integers(low, high, rank)) if several else int(rng.integers(low, high))

    options = {"groups": groups, "bias": bool(rng.random() < 0.7), "dilation": pick(1, 3)}
    size = [int(n) for n in rng.integers(5, 8, rank)]
    shape = ([int(rng.integers(1, 3))] if rng.random() < 0.8 else []) + [2 * groups, *size]
    args = (2 * groups, int(rng.integers(1, 3)) * groups, pick(1, 4))
    if rng.random() < 0.4:
        options["stride"] = pick(2, 4)
        options["output_padding"] = 1
        options["padding"] = pick(0, 3)
        return f"ConvTranspose{rank}d", args, options, [x(*shape, seed=seed)]
    options["stride"] = pick(1, 3)
    options["padding"] = pick(0, 3)
    if rng.random() < 0.3:
        options.update(stride=1, padding=str(rng.choice(["same", "valid"])))
    if rng.random() < 0.3:
        options["padding_mode"] = str(rng.choice(["reflect", "replicate", "circular"]))
    return f"Conv{rank}d", args, options, [x(*shape, seed=seed)]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("seed", range(60))
def test_random_fields(seed):
    compare(*random_case(seed), tolerance=1e-9)


@pytest.mark.parametrize(("args", "options"), [
    ((1,), {"padding": 0, "output_padding": 1, "stride": 2}),
    ((1,), {"padding": 2, "output_padding": 1, "stride": 1, "dilation": 3}),
    ((1,), {"padding": 0, "output_padding": 2, "stride": 1, "dilation": 3}),
])  # fmt: skip
def test_transposed_convolutions_with_zeros_at_the_end(args, options):
    compare_functions("conv_transpose1d", (x(2, 3, 6), x(3, 2, 3)), options)


def test_output_size_of_a_transposed_convolution():
    for size in ([9, 11], [10, 12]):
        ours, theirs = nn.ConvTranspose2d(2, 3, 3, 2, 1), torch.nn.ConvTranspose2d(2, 3, 3, 2, 1)
        got = ours(pt.tensor(x(1, 2, 5, 6).astype("float32")), output_size=size).shape
        assert tuple(got) == tuple(theirs(torch.zeros(1, 2, 5, 6), output_size=size).shape)
    with pytest.raises(UsageError, match=r"must lie between \[9, 11\] and \[10, 12\]"):
        ours(pt.zeros(1, 2, 5, 6), output_size=[11, 11])


@pytest.mark.parametrize("make", [
    lambda lib: lib.nn.Linear(300, 200), lambda lib: lib.nn.Conv2d(32, 64, 3), lambda lib: lib.nn.Bilinear(20, 30, 40),
    lambda lib: lib.nn.ConvTranspose2d(32, 64, 3, groups=2), lambda lib: lib.nn.Conv1d(64, 64, 5, groups=4),
], ids=["Linear", "Conv2d", "Bilinear", "ConvTranspose2d", "Conv1d"])  # fmt: skip
def test_first_values_have_the_distribution_of_pytorch(make):
    pt.manual_seed(3), torch.manual_seed(3)
    for (name, mine), theirs in zip(make(pt).named_parameters(), make(torch).parameters(), strict=True):
        a, b = mine.numpy().ravel(), theirs.detach().numpy().ravel()
        bound = np.abs(b).max()
        few = a.size < 1000
        assert np.abs(a).max() == pytest.approx(bound, rel=0.15 if few else 0.01), name
        assert a.std() == pytest.approx(b.std(), rel=0.3 if few else 0.03), name


@pytest.mark.parametrize(("error", "call", "message"), [
    (UsageError, lambda: nn.Conv2d(3, 4, 3, groups=2), "3 input and 4 output channels must divide into 2 groups"),
    (UsageError, lambda: nn.Conv2d(3, 4, (3, 3, 3)), "kernel_size must be one integer or 2, got 3"),
    (UsageError, lambda: nn.Conv2d(3, 4, 3, stride=0), "stride must be at least 1, got 0"),
    (UsageError, lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), "'same' needs a stride of 1"),
    (UsageError, lambda: nn.Conv2d(3, 4, 3, padding="full"), "padding must be 'valid', 'same' or integers"),
    (UsageError, lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "padding_mode must be one of 'zeros'"),
    (UsageError, lambda: nn.ConvTranspose2d(3, 4, 3, output_padding=1)(pt.zeros(1, 3, 4, 4)), "must be smaller"),
    (ShapeError, lambda: nn.Conv2d(3, 4, 3)(pt.zeros(2, 4, 5, 5)), "4 input channels"),
    (ShapeError, lambda: nn.Conv2d(3, 4, 3)(pt.zeros(5, 5)), "expected an input of 4 dimensions"),
    (ShapeError, lambda: nn.Conv2d(3, 4, 3)(pt.zeros(1, 3, 2, 5)), "kernel size 3 exceeds the padded input size 2"),
    (UsageError, lambda: nn.Conv2d(3, 4, 3)(pt.zeros(1, 3, 5, 5, dtype=pt.float64)), "cast one of them"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call()
