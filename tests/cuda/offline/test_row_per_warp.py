"""The candidate `row_per_warp`: layer norm and softmax with a warp a row, run on the CPU from the same text."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.cuda.kernels.candidates import ENV_VAR
from prototorch.cuda.kernels.launch import complete_source
from prototorch.cuda.kernels.row_per_warp import RowShape
from prototorch.spec import Spec
from tests.cuda.offline.kernel_logic import check_kernel, random_array, run_kernel
from tests.cuda.offline.shim_device import COMPILER

needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)
#: rows, elements of a row: a part of a warp, one warp, two; vectors of 4, 2 and 1 elements; more rows than a block has
SHAPES = [(5, 24), (3, 130), (9, 7), (2, 1), (4, 1100), (70, 8)]


@pytest.fixture(autouse=True)
def _chosen(monkeypatch):
    monkeypatch.setenv(ENV_VAR, "row_per_warp")


def test_the_shape_of_a_row():
    def of(size, dtype="bfloat16"):
        return RowShape.of(Spec((2, size), dtype), size)

    assert of(256) == RowShape(256, vector=8, threads=32, vectors=1)
    assert of(64) == RowShape(64, vector=8, threads=8, vectors=1)
    assert of(8192) == RowShape(8192, vector=8, threads=256, vectors=4)
    assert of(8192, "float32") == RowShape(8192, vector=4, threads=256, vectors=8)
    assert of(1001) == RowShape(1001, vector=1, threads=32, vectors=32)
    assert of(16384) is None
    for size in range(1, 8193, 37):
        shape = of(size)
        assert shape is None or shape.vector * shape.threads * shape.vectors >= size


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(device, shape):
    x, g = random_array(*shape) * 5, random_array(*shape, seed=1)
    (y,) = check_kernel(device, "softmax", [x])
    check_kernel(device, "log_softmax", [x], rtol=1e-5, atol=1e-5)
    check_kernel(device, "softmax_grad", [g, y])
    labels = np.arange(shape[0]).astype(np.int32) % shape[1]
    check_kernel(device, "sparse_softmax_cross_entropy", [x, labels], rtol=1e-5, atol=1e-5)
    check_kernel(device, "sparse_softmax_cross_entropy_grad", [random_array(shape[0], seed=1), x, labels])
    names = {"softmax", "log_softmax", "softmax_grad", "sparse_softmax_cross_entropy"}
    assert not names & set(device.launched), "the kernels in use were launched"


@needs_compiler
def test_values_at_the_edges(device):
    x = np.array([[-np.inf, 0, 1, 2], [np.nan, 0, 1, 2], [3e38, -3e38, 3e38, 0]], np.float32)
    check_kernel(device, "softmax", [x])
    assert np.isnan(run_kernel(device, "sparse_softmax_cross_entropy", [x[:1], np.array([4], np.int32)])[0]).all()


@needs_compiler
@pytest.mark.parametrize("mask", [None, (2, 3, 5, 6), (2, 1, 1, 6), (5, 6)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights(device, mask, causal):
    arrays = [random_array(2, 3, 5, 4), random_array(2, 3, 6, 4, seed=1)]
    if mask:
        arrays.append(np.random.default_rng(2).random(mask) < 0.7)
    check_kernel(device, "attention_weights", arrays, {"causal": causal})
    assert "attend_rows" in device.launched


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(device, shape):
    x, n = random_array(*shape) * 2 + 3, shape[1]
    gamma, beta, attrs = random_array(n, seed=1), random_array(n, seed=2), {"axis": -1, "eps": 1e-5}
    check_kernel(device, "layer_norm", [x, gamma, beta], attrs, rtol=1e-4, atol=1e-5)
    g = random_array(*shape, seed=3)
    check_kernel(device, "layer_norm_grad", [g, x, gamma], attrs, rtol=1e-4, atol=2e-4)
    assert not {"layer", "layer_grad"} & set(device.launched)


@needs_compiler
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_types(device, dtype):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    x, g = random_array(5, 72).astype(dtype), random_array(5, 72, seed=1).astype(dtype)
    weights = "float64" if dtype == "float64" else "float32"
    gamma, beta = (random_array(72, seed=k).astype(weights) for k in (2, 3))
    check_kernel(device, "layer_norm", [x, gamma, beta], {"axis": -1, "eps": 1e-5})
    check_kernel(device, "layer_norm_grad", [g, x, gamma], {"axis": -1, "eps": 1e-5}, rtol=1e-3, atol=1e-4)
    (y,) = check_kernel(device, "softmax", [x])
    check_kernel(device, "softmax_grad", [g, y], rtol=1e-5)


PROBE = "KERNEL tried(index n, const float* a, float* b) {{ {} }}"
SOUND = "float v = a[threadIdx.x]; for (int d = 1; d < 32; d *= 2) v += __shfl_xor_sync(~0u, v, d); b[threadIdx.x] = v;"
WRONG = {
    "some lanes end before a shuffle": ("if (threadIdx.x % 32 < 31) b[0] = __shfl_xor_sync(~0u, a[0], 1);", "no part"),
    "a mask names lanes that wait elsewhere": (
        "if (threadIdx.x % 2) b[1] = __shfl_xor_sync(~0u, a[0], 2);\\n else __syncthreads();", "wait elsewhere"
    ),
    "a lane that the mask does not name": (
        "if (threadIdx.x % 32 < 9) b[threadIdx.x] = __shfl_xor_sync(0xffu, a[0], 1);", "does not name"
    ),
    "a lane of the other half": (
        "if (threadIdx.x % 32 < 16) b[threadIdx.x] = __shfl_xor_sync(0xffffu, a[0], 16);", "no part"
    ),
}  # fmt: skip


def _run_probe(device, body, threads=64):
    text = complete_source(PROBE.format(body.replace("\\n", "\n")))
    a, b = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    device.launch(device.load_module(text), "tried", 1, threads, (np.uint32(64), a, b))
    return b


@needs_compiler
def test_a_sum_by_shuffles(device):
    assert _run_probe(device, SOUND).tolist() == [496.0] * 32 + [496.0 + 1024] * 32


@needs_compiler
@pytest.mark.parametrize("kind", WRONG)
def test_a_shuffle_with_lanes_that_take_no_part_is_found(device, kind):
    body, message = WRONG[kind]
    with pytest.raises(AssertionError, match=message):
        _run_probe(device, body)
