"""Kernels of activations, softmax, normalisation, dropout and attention against the plain bodies."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import (
    activation as activation_kernels,
)
from prototorch.engine.backends.cpu.numpy import (
    attention,
    elementwise,
    lrn,
    norm,
    random,
    softmax,
)
from tests.engine.backends.kernel_check import check, plain

ACTIVATIONS = sorted(
    {op.name for op in activation_kernels.CHUNKED} | {"relu", "relu_grad", "relu6_grad", "hard_sigmoid_grad", "sigmoid"}
)
ATTRS = {"gelu": {"approximate": True}}
# 1 / (1 + exp(-x)) in place of the plain body's formula: three roundings, and 0 where the result is no normal number
ROUNDED = {"sigmoid": {"rtol": 5e-7, "atol": 2e-38}}
# float32 rounding: sums over a few hundred elements in another order, or a square root in place of a power
NEAR = {"rtol": 2e-5, "atol": 2e-5}


@pytest.fixture(params=["whole", "pieces"], autouse=True)
def pieces(request, monkeypatch):
    """Everything once more in tiny pieces over threads."""
    if request.param == "pieces":
        monkeypatch.setattr(elementwise, "PARALLEL_MIN_SIZE", 1)
        monkeypatch.setattr(elementwise, "TASK_SIZE", 5)
        monkeypatch.setattr(elementwise, "CHUNK_SIZE", 3)
        monkeypatch.setattr(activation_kernels, "_COMPOSITE_CHUNK", 4)
        monkeypatch.setattr(random, "_CHUNK_SIZE", 16)
        for module in (norm, lrn, softmax):
            monkeypatch.setattr(module, "_BLOCK_ELEMENTS", 1)


def numbers(*shape, seed=0, dtype="float32"):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


@pytest.mark.parametrize("shape", [(3, 5), (17,), (2, 3, 4, 5), (0, 2)], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name, shape):
    attrs = ATTRS.get(name.removesuffix("_grad"), {})
    arrays = [numbers(*shape) * 4] if not name.endswith("_grad") else [numbers(*shape), numbers(*shape, seed=1) * 4]
    check(name, *arrays, **attrs, **ROUNDED.get(name, {}))


@pytest.mark.parametrize("name", ["relu", "sigmoid", "gelu", "softplus", "relu_grad", "sigmoid_grad"])
def test_activation_of_odd_numbers(name):
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 90, -90], np.float32)
    check(name, *([odd] if not name.endswith("_grad") else [odd, odd[::-1].copy()]), **ROUNDED.get(name, {}))


ROWS = [((3, 5), -1), ((3, 5), 0), ((2, 3, 4), 1), ((7,), 0), ((2, 1), 1), ((4, 300), 1)]


@pytest.mark.parametrize(("shape", "axis"), ROWS, ids=str)
def test_softmax(shape, axis):
    x, g = numbers(*shape) * 30, numbers(*shape, seed=1)
    y = plain("softmax", [x], {"axis": axis})[0]
    check("softmax_grad", g, y, axis=axis, **NEAR)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_sparse_cross_entropy(dtype):
    for shape in ((7, 5), (2, 3, 4), (1, 1), (4,)):
        x = numbers(*shape) * 9
        labels = np.asarray(np.random.default_rng(2).integers(0, shape[-1], shape[:-1]), dtype)
        check("sparse_softmax_cross_entropy", x, labels, **NEAR)
        g = numbers(*shape[:-1], seed=3)
        check("sparse_softmax_cross_entropy_grad", g, x, labels, **NEAR)


def test_cross_entropy_of_large_logits_stays_finite():
    x = np.array([[1e4, 0, -1e4], [-1e4, -1e4, -1e4], [300, 299, 298]], np.float32)
    labels = np.array([1, 0, 2], np.int32)
    check("sparse_softmax_cross_entropy", x, labels, **NEAR)
    check("sparse_softmax_cross_entropy_grad", np.ones(3, np.float32), x, labels, **NEAR)


def test_a_label_that_is_no_class_gives_nan_and_has_no_place_in_the_gradient():
    labels = np.asarray([0, -1, 4])
    check("sparse_softmax_cross_entropy", numbers(3, 4), labels, **NEAR)
    check("sparse_softmax_cross_entropy_grad", numbers(3), numbers(3, 4), labels, **NEAR)


NORMS = [
    ((6, 3, 4, 5), 1),
    ((6, 3), 1),
    ((4, 5, 3), -1),
    ((1, 2, 7), 1),
    ((64, 1), 1),
    ((5, 7, 3, 1), 1),
    ((3, 2, 70, 70), 1),
]


@pytest.mark.parametrize(("shape", "axis"), NORMS, ids=str)
def test_batch_norm(shape, axis):
    x, c = numbers(*shape) + 3, shape[axis]
    gamma, beta = numbers(c, seed=1), numbers(c, seed=2)
    check("batch_norm", x, gamma, beta, eps=1e-3, axis=axis, **NEAR)
    _, mean, var = plain("batch_norm", [x, gamma, beta], {"eps": 1e-3, "axis": axis})
    # dgamma sums some thousand products of size 1
    check("batch_norm_grad", numbers(*shape, seed=3), x, gamma, mean, var, eps=1e-3, axis=axis, rtol=2e-5, atol=1e-3)
    check("batch_norm_inference", x, gamma, beta, mean, var, eps=1e-3, axis=axis, **NEAR)


LAYERS = [((4, 7), -1), ((2, 3, 5), (1, 2)), ((3, 1), 1), ((2, 3, 40), 2), ((1, 500), 1)]


@pytest.mark.parametrize(("shape", "axis"), LAYERS, ids=str)
def test_layer_norm(shape, axis):
    x = numbers(*shape) * 2 + 1
    over = shape[-2:] if isinstance(axis, tuple) else shape[-1:]
    gamma, beta, g = numbers(*over, seed=1), numbers(*over, seed=2), numbers(*shape, seed=3)
    check("layer_norm", x, gamma, beta, axis=axis, eps=1e-3, **NEAR)
    check("layer_norm_grad", g, x, gamma, axis=axis, eps=1e-3, **NEAR)


@pytest.mark.parametrize(("size", "beta"), [(5, 0.75), (3, 0.5), (1, 1.0), (9, 0.6)])
@pytest.mark.parametrize("shape", [(2, 7, 3, 5), (3, 2, 4), (2, 96, 5, 5), (1, 1, 1), (2, 3)], ids=str)
def test_lrn(shape, size, beta):
    attrs = {"size": size, "alpha": 0.5, "beta": beta, "k": 1.5}
    x, g = numbers(*shape) * 3, numbers(*shape, seed=1)
    check("lrn", x, **attrs, **NEAR)
    base = plain("lrn", [x], attrs)[1]
    check("lrn_grad", g, x, base, **attrs, **NEAR)


KEY = np.asarray([7, 3], "uint64")


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 0.99999])
@pytest.mark.parametrize("shape", [(3, 5), (97,), (2, 3, 4, 5), (0,)], ids=str)
def test_dropout(shape, rate):
    check("dropout", numbers(*shape), KEY, rate=rate, site=11, rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_weights(causal, masked):
    q, k = numbers(2, 3, 4, 5), numbers(2, 3, 6, 5, seed=1)
    mask = [numbers(2, 1, 1, 6, seed=2) > 0] if masked else []
    check("attention_weights", q, k, *mask, causal=causal, **NEAR)
    check("attention_weights", q, k, *mask, causal=causal, scale=0.3, **NEAR)


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_attention_heads(block, causal, masked, rate, monkeypatch):
    """Blocks of one query, of some and of all; rows that begin within a block of the generator."""
    monkeypatch.setattr(attention, "_BLOCK_ELEMENTS", block)
    q, k, v, g = numbers(2, 5, 3, 4), numbers(2, 7, 3, 4, seed=1), numbers(2, 7, 3, 2, seed=2), numbers(2, 5, 3, 2)
    rest = [numbers(2, 3, 1, 7, seed=2) > 0] if masked else []
    attrs = {"causal": causal}
    if rate:
        rest.append(np.array([7, 3], np.uint64))
        attrs |= {"rate": rate, "site": 9}
    for options in (attrs, attrs | {"scale": 0.3}):
        check("attention_heads", q, k, v, *rest, **options, **NEAR)
        check("attention_heads_grad", g, q, k, v, *rest, **options, **NEAR)
