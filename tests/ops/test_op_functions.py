"""The functions that are said in several ops, the operators, and indexing."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.graph.ir import Graph
from prototorch.ops.core import run_on_arrays
from prototorch.spec import Spec

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 4, 5))
EXACT = {"rtol": 1e-12, "atol": 1e-12}  # float64: a few roundings


def same(work, *arrays, want, **tolerance):
    np.testing.assert_allclose(run_on_arrays(work, *arrays), want, **(tolerance or EXACT))


KEYS = [
    0,
    -1,
    slice(None),
    slice(1, 3),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(2, None, -2),
    slice(5, 1),
    slice(-2, None),
    slice(100),
    ...,
    None,
    (0, 1, 2),
    (slice(None), 1),
    (..., 1),
    (0, ..., 1),
    (None, 0, ..., slice(1, 4, 2), None),
    (slice(None), None, slice(3, 0, -1), slice(4, None, -3)),
    (slice(0, 0), ...),
    (np.int64(1), slice(None)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_numpys(key):
    same(lambda x: x[key], X, want=X[key])


def test_indexing_by_many_random_keys():
    rng = np.random.default_rng(11)

    def part(n):
        if rng.random() < 0.2:
            return int(rng.integers(-n, n))
        ends = [None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
        return slice(*ends, int(rng.choice([-3, -2, -1, 1, 2, 3])))

    for _ in range(300):
        key = tuple(part(n) for n in X.shape[: int(rng.integers(0, 4))])
        same(lambda x, key=key: x[key], X, want=X[key])


@pytest.mark.parametrize("key", [(0, 0, 0, 0), 3, (..., -6)], ids=str)
def test_indices_outside_are_refused(key):
    with pytest.raises(ShapeError, match=r"too many indices|out of range"):
        run_on_arrays(lambda x: x[key], X)


def test_operators():
    a, b = X[0], np.abs(X[1]) + 0.5
    same(lambda x, y: (x + y) * 2 - x / y, a, b, want=(a + b) * 2 - a / b)
    same(lambda x: 1 - x, a, want=1 - a)
    same(lambda x: 2 / x, b, want=2 / b)
    same(lambda x: -x, a, want=-a)
    same(lambda x: x**2, b, want=b**2)
    same(lambda x: 2**x, b, want=2**b)
    same(lambda x, y: x @ y, a, b.T, want=a @ b.T)
    for work in (lambda x, y: x < y, lambda x, y: x <= y, lambda x, y: x > y, lambda x, y: x >= y):
        np.testing.assert_array_equal(run_on_arrays(work, a, b), work(a, b))
    np.testing.assert_array_equal(run_on_arrays(lambda x: ops.greater(x, 0.0), a), a > 0)
    np.testing.assert_array_equal(run_on_arrays(lambda x: ops.greater_equal(0.0, x), a), a <= 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_takes_the_type_around_it(dtype):
    graph = Graph()
    x, seen = graph.input("x", Spec((2,), dtype)), graph.input("seen", Spec((2,), "bool"))
    for made in (1 + x * 0.5, ops.maximum(x, 0), ops.where(seen, x, 0.0), ops.where(seen, 1.0, x)):
        assert made.dtype == dtype


def test_whole_numbers_stay_whole():
    assert run_on_arrays(lambda x: x * 2 + 1, np.arange(3)).dtype == "int64"


def test_clip():
    same(lambda x: ops.clip(x, -0.5, 0.7), X, want=np.clip(X, -0.5, 0.7))
    same(lambda x: ops.clip(x, high=0.1), X, want=np.minimum(X, 0.1))


def test_moving():
    same(lambda x: ops.expand_dims(x, -1), X, want=X[..., None])
    same(lambda x: ops.expand_dims(x, 1), X, want=X[:, None])
    same(lambda x: ops.squeeze(x, -2), X[:, :1], want=X[:, 0])
    same(lambda x: ops.swap_axes(x, 0, -1), X, want=X.swapaxes(0, -1))
    same(lambda x: ops.repeat(x, 3, -1), X, want=np.repeat(X, 3, -1))
    same(lambda x, y: ops.stack([x, y], -1), X, X * 2, want=np.stack([X, X * 2], -1))
    same(lambda x, y: ops.stack([x, y]), X, X * 2, want=np.stack([X, X * 2]))
    for got, want in zip(run_on_arrays(lambda x: tuple(ops.split(x, 2, 1)), X), np.split(X, 2, 1), strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ShapeError, match="3 equal parts"):
        run_on_arrays(lambda x: tuple(ops.split(x, 3, 1)), X)
    with pytest.raises(ShapeError, match="squeezed"):
        run_on_arrays(lambda x: ops.squeeze(x, 0), X)


@pytest.mark.parametrize("axis", [None, 1, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis, keepdims):
    x = X * 300
    want = torch.logsumexp(torch.tensor(x), tuple(range(3)) if axis is None else axis, keepdims).numpy()
    same(lambda x: ops.logsumexp(x, axis=axis, keepdims=keepdims), x, want=want)


def test_logsumexp_of_nothing_likely():
    x = np.array([[-np.inf, -np.inf], [-np.inf, 1.0]])
    with np.errstate(divide="ignore"):  # the logarithm of 0 is what is asked for
        same(lambda x: ops.logsumexp(x, axis=1), x, want=[-np.inf, 1.0])


def test_losses_from_logits():
    x, t = X[0] * 5, np.abs(X[1]) / np.abs(X[1]).sum(-1, keepdims=True)
    want = F.cross_entropy(torch.tensor(x), torch.tensor(t), reduction="none").numpy()
    same(ops.softmax_cross_entropy, x, t, want=want)
    want = F.binary_cross_entropy_with_logits(torch.tensor(x * 100), torch.tensor(t), reduction="none").numpy()
    same(ops.sigmoid_cross_entropy, x * 100, t, want=want)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm(groups):
    gamma, beta = RNG.random(4) + 0.5, RNG.standard_normal(4)
    want = F.group_norm(*map(torch.tensor, (X,)), groups, *map(torch.tensor, (gamma, beta)), 1e-3).numpy()
    same(lambda x, a, b: ops.group_norm(x, a, b, groups=groups, eps=1e-3), X, gamma, beta, want=want)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(causal, masked):
    q, k, v = (RNG.standard_normal((2, 3, 4, d)) for d in (5, 5, 2))
    mask = np.ones((2, 1, 4, 4), bool)
    mask[:, :, :, -1] = not masked
    seen = torch.tensor(mask) & (torch.ones(4, 4, dtype=torch.bool).tril() if causal else True)
    want = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), attn_mask=seen).numpy()
    got = run_on_arrays(
        lambda q, k, v, m: ops.attention(q, k, v, mask=m if masked else None, causal=causal), q, k, v, mask
    )
    np.testing.assert_allclose(got, want, **EXACT)


def test_what_is_masked_has_no_weight():
    q = RNG.standard_normal((1, 1, 2, 3)) * 100
    mask = np.array([[[[True, False], [False, True]]]])
    got = run_on_arrays(lambda q, m: ops.attention_weights(q, q, m), q, mask)
    np.testing.assert_array_equal(got[0, 0], np.eye(2))


@pytest.mark.parametrize(("size", "wanted"), [((4, 5), (8, 10)), ((5, 7), (3, 4)), ((3, 3), (3, 5)), ((1, 2), (4, 1))])
@pytest.mark.parametrize("align", [False, True])
def test_bilinear_resizing_is_pytorchs(size, wanted, align):
    x = RNG.standard_normal((2, 3, *size))
    want = F.interpolate(torch.tensor(x), wanted, mode="bilinear", align_corners=align).numpy()
    if not align:  # PyTorch repeats the border by cutting the place at 0, which is the same
        assert want.shape == (2, 3, *wanted)
    same(lambda x: ops.resize(x, wanted, method="bilinear", align_corners=align), x, want=want)


@pytest.mark.parametrize(("size", "wanted"), [((4, 5), (8, 10)), ((5, 7), (3, 4)), ((2, 3), (5, 3))])
def test_nearest_resizing_takes_the_pixel_under_the_centre(size, wanted):
    x = RNG.standard_normal((1, 2, *size))
    want = F.interpolate(torch.tensor(x), wanted, mode="nearest-exact").numpy()
    same(lambda x: ops.resize(x, wanted, method="nearest"), x, want=want)


def test_bicubic_resizing_keeps_parabolas_inside():
    ramp = np.arange(8.0) ** 2
    got = run_on_arrays(lambda x: ops.resize(x, (1, 16), method="bicubic"), ramp.reshape(1, 1, 1, 8))[0, 0, 0]
    places = (np.arange(16) + 0.5) / 2 - 0.5
    np.testing.assert_allclose(got[4:-4], places[4:-4] ** 2, **EXACT)  # Keys' kernel is exact up to the second power


def test_normal_numbers():
    key = np.array([5, 6], "uint64")
    got = run_on_arrays(lambda k: ops.random_normal(k, site=1, shape=(200, 500), mean=2.0, stddev=3.0), key)
    assert got.shape == (200, 500)
    assert got.dtype == "float32"
    unit = (got.astype(float) - 2) / 3
    # 10^5 numbers: bounds of five standard errors; fixed bits, so it holds always or never
    for power, moment, spread in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs((unit**power).mean() - moment) < 5 * math.sqrt(spread / unit.size)
    assert 4 < np.abs(unit).max() < 6


def test_uniform_numbers_stay_below_the_end():
    key = np.array([5, 6], "uint64")
    got = run_on_arrays(lambda k: ops.random_uniform(k, site=1, shape=(1 << 20,), low=1.0, high=1.0 + 2.0**-22), key)
    assert set(got.tolist()) == {1.0, 1.0 + 2.0**-23}  # the two float32 there are in [low, high)


def test_dropout_keeps_its_share():
    key, ones = np.array([5, 6], "uint64"), np.ones(1 << 18)
    for rate in (0.1, 0.5, 0.9):
        got = run_on_arrays(lambda x, k, rate=rate: ops.dropout(x, k, rate=rate, site=3), ones, key)
        assert abs((got != 0).mean() - (1 - rate)) < 5 * math.sqrt(rate * (1 - rate) / ones.size)
        assert set(np.round(np.unique(got) * (1 - rate), 12)) == {0, 1}
    other = run_on_arrays(lambda x, k: ops.dropout(x, k, rate=0.9, site=4), ones, key)
    assert abs(np.corrcoef(got != 0, other != 0)[0, 1]) < 5 / math.sqrt(ones.size)


def test_cross_entropy_of_a_label_that_is_no_class_is_nan():
    labels = np.array([0, -1, 3, 2], np.int32)
    loss = run_on_arrays(ops.sparse_softmax_cross_entropy, np.zeros((4, 3), np.float32), labels)
    np.testing.assert_allclose(loss, [np.log(3), np.nan, np.nan, np.log(3)], rtol=1e-6)


def test_a_row_that_is_not_there_is_nan():
    table = np.arange(6.0).reshape(3, 2)
    same(ops.take, table, np.array([2, -1, 3, 0]), want=[[4, 5], [np.nan] * 2, [np.nan] * 2, [0, 1]])


@pytest.mark.parametrize("name", ["erf", "gelu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_erf_of_narrow_elements_does_not_overflow(name, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x = np.linspace(-9, 9, 181)
    want = run_on_arrays(getattr(ops, name), x)
    got = run_on_arrays(getattr(ops, name), x.astype(dtype))
    np.testing.assert_allclose(got.astype("float64"), want, rtol=2e-2, atol=2e-2)


def test_infinities_of_narrow_elements():
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x = np.array([1.0, np.inf, -np.inf, np.nan])
    for dtype in ("float16", "bfloat16"):
        assert run_on_arrays(ops.isinf, x.astype(dtype)).tolist() == [False, True, True, False]
