"""Native attention and its gradient against the plain bodies, over awkward sizes, masks and blocks."""

import numpy as np
import pytest

from prototorch import ops

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

# samples, queries, keys, heads, numbers of a key, numbers of a value
SIZES = [(1, 1, 1, 1, 1, 1), (2, 3, 4, 2, 5, 6), (1, 33, 47, 3, 20, 17), (2, 7, 130, 1, 33, 8), (1, 130, 9, 1, 8, 40),
         (5, 12, 12, 4, 8, 8)]  # fmt: skip
# sums of up to 130 products, exp within 2 units in the last place
TOLERANCE = {"rtol": 2e-5, "atol": 1e-5}


def numbers(*shape, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


def masks_of(kind, n, t, s, h):
    shapes = {"none": (), "keys": ((n, 1, 1, s),), "heads": ((1, h, t, s),), "two": ((t, s), (n, 1, t, 1))}[kind]
    return [np.random.default_rng(7).random(shape) < 0.6 for shape in shapes]


@pytest.mark.parametrize(
    ("size", "kind"), [*((s, "none") for s in SIZES), (SIZES[1], "heads"), (SIZES[2], "keys"), (SIZES[2], "two")]
)
def test_attention_and_its_gradient(bits, size, kind):
    n, t, s, h, d, e = size
    q, k, v = numbers(n, t, h, d), numbers(n, s, h, d, seed=1), numbers(n, s, h, e, seed=2)
    masks = masks_of(kind, n, t, s, h)
    for attrs in ({"causal": kind != "keys"}, {"scale": 0.3}):  # with masks that hide all keys of some queries
        check("attention_heads", q, k, v, *masks, **attrs, **TOLERANCE)
        check("attention_heads_grad", numbers(n, t, h, e, seed=3), q, k, v, *masks, **attrs, **TOLERANCE)


@pytest.mark.parametrize(
    ("size", "kind"), [(SIZES[0], "none"), (SIZES[1], "two"), (SIZES[2], "none"), (SIZES[2], "keys")]
)
def test_weights(bits, size, kind):
    n, t, s, h, d, _ = size
    q, k, masks = numbers(n, h, t, d), numbers(n, h, s, d, seed=1), masks_of(kind, n, t, s, h)
    for attrs in ({"causal": True}, {"scale": 0.3}):
        check("attention_weights", q, k, *masks, **attrs, **TOLERANCE)


@pytest.mark.parametrize("size", [*SIZES[:3], SIZES[5], (1, 70, 33, 2, 8, 8)])
@pytest.mark.parametrize("rate", [0.3, 1e-7, 0.9999999])
def test_dropout_inside(bits, size, rate):
    """The weights that the op `dropout` drops, wherever in a block of the generator a row begins."""
    n, t, s, h, d, e = size
    q, k, v = numbers(n, t, h, d), numbers(n, s, h, d, seed=1), numbers(n, s, h, e, seed=2)
    key, masks = np.array([7, 3], np.uint64), masks_of("heads", n, t, s, h)
    for attrs, given in (({"causal": True}, []), ({"scale": 0.3}, masks)):
        attrs |= {"rate": rate, "site": 2**63 + 5}
        check("attention_heads", q, k, v, *given, key, **attrs, **TOLERANCE)
        check("attention_heads_grad", numbers(n, t, h, e, seed=3), q, k, v, *given, key, **attrs, **TOLERANCE)


@pytest.mark.parametrize(
    ("size", "kind", "rate"), [(SIZES[1], "two", 0.0), (SIZES[2], "none", 0.0), (SIZES[4], "keys", 0.0),
                               (SIZES[3], "none", 0.3)]
)  # fmt: skip
def test_the_pair_that_saves_statistics(size, kind, rate):
    """The gradient from what the forward pass has saved."""
    n, t, s, h, d, e = size
    q, k, v = numbers(n, t, h, d), numbers(n, s, h, d, seed=1), numbers(n, s, h, e, seed=2)
    inputs, attrs = (q, k, v, *masks_of(kind, n, t, s, h)), {"causal": kind != "keys"}
    if rate:
        inputs, attrs = (*inputs, np.array([7, 3], np.uint64)), attrs | {"rate": rate, "site": 2**63 + 5}
    check("attention_heads_with_stats", *inputs, **attrs, **TOLERANCE)
    saved = ops.attention_heads_with_stats.reference(np, *inputs, **attrs)
    grad = numbers(n, t, h, e, seed=3)
    check("attention_heads_with_stats_grad", grad, *inputs, *saved, **attrs, **TOLERANCE)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_pair_that_saves_statistics_gives_what_the_other_gives(dtype, rate):
    """Also for queries that see no key, whose weights are equal."""
    q, k, v, g = (numbers(2, 7, 3, 4, seed=i).astype(dtype) for i in range(4))
    mask = np.random.default_rng(7).random((2, 1, 7, 7)) < 0.5
    mask[:, :, 3:5] = False
    inputs, attrs = (q, k, v, mask), {"causal": True}
    if rate:
        inputs, attrs = (*inputs, np.array([7, 3], np.uint64)), attrs | {"rate": rate, "site": 5}
    expected = ops.attention_heads.reference(np, *inputs, **attrs)
    saved = ops.attention_heads_with_stats.reference(np, *inputs, **attrs)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(saved[0], expected, **tolerance)
    grads = ops.attention_heads_grad.reference(np, g, *inputs, **attrs)
    for a, b in zip(ops.attention_heads_with_stats_grad.reference(np, g, *inputs, *saved, **attrs), grads, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
