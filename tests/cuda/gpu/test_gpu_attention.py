"""cuDNN's fused attention on a GPU beside the op in float64: masks, lengths, the pair that saves statistics, and equal
bits with ``deterministic``."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.cuda.availability import unavailable_reason
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
#: relative to the largest element: factors and results of 8 and 11 bits, weights rounded in between
TOLERANCE = {"bf16": 3e-2, "fp16": 4e-3}
#: samples, queries, keys, heads, elements of a key
SIZES = [(2, 64, 64, 4, 32), (1, 77, 77, 3, 24), (2, 33, 130, 2, 64), (1, 1, 96, 2, 128), (4, 256, 256, 4, 64)]


def run(backend, name, arrays, attrs):
    """The outputs in float64, and the family of the kernel."""
    op, ins = OPS[name], tuple(Spec(a.shape, a.dtype.name) for a in arrays)
    made = op.infer_spec(*ins, **attrs)
    outs = made if isinstance(made, tuple) else (made,)
    kernel = backend.prepare(op, ins, outs, attrs)
    inputs, outputs = [backend.asarray(a) for a in arrays], [backend.empty(s) for s in outs]
    with backend.run_context():
        kernel(inputs, outputs)
    return [backend.to_numpy(a) for a in outputs], backend.choose_kernel(op, ins, outs, attrs).family


def check(backend, name, arrays, attrs, tolerance):
    outputs, family = run(backend, name, arrays, attrs)
    if backend.device.name != "fake":
        assert family == "cudnn", f"{name} by {family}: not by cuDNN's fused engines"
    wide = [a if a.dtype.kind in "bui" else a.astype(np.float64) for a in arrays]
    expected = OPS[name].reference(np, *wide, **attrs)
    for got, want in zip(outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
        want = np.asarray(want)
        error = np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), 1e-3)
        assert error < tolerance, f"{name}: off by {error:.1e} of the largest"
    return outputs


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("word", ["bf16", "fp16"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "keys", "causal-keys"])
def test_attention_and_its_gradient(gpu, word, size, kind):
    n, t, s, h, d = size
    q, g = (numbers((n, t, h, d), DTYPES[word], seed) for seed in (0, 3))
    k, v = (numbers((n, s, h, d), DTYPES[word], seed) for seed in (1, 2))
    attrs, masks = {"causal": kind.startswith("causal")}, []
    if kind.endswith("keys"):
        mask = np.random.default_rng(7).random((n, 1, 1, s)) < 0.7
        mask[..., 0] = True  # every query sees a key
        masks.append(mask)
    backend = gpu(word)
    for name, arrays in (("attention_heads", (q, k, v, *masks)), ("attention_heads_grad", (g, q, k, v, *masks))):
        check(backend, name, arrays, attrs, TOLERANCE[word])
    saved = check(backend, "attention_heads_with_stats", (q, k, v, *masks), attrs, TOLERANCE[word])
    check(backend, "attention_heads_with_stats_grad", (g, q, k, v, *masks, *saved), attrs, TOLERANCE[word])


@pytest.mark.parametrize("word", ["bf16", "fp16"])
def test_deterministic_gives_the_same_bits_twice(gpu, word):
    backend = gpu(word, deterministic=True)
    q, k, v, g = (numbers((8, 512, 8, 64), DTYPES[word], seed) for seed in range(4))
    results = []
    for _ in range(5):
        saved, _ = run(backend, "attention_heads_with_stats", (q, k, v), {"causal": True})
        grads, _ = run(backend, "attention_heads_with_stats_grad", (g, q, k, v, *saved), {"causal": True})
        results.append([a.tobytes() for a in (*saved, *grads)])
    assert all(result == results[0] for result in results)
