"""Sums over the rows of a matrix: the share of a GPU that they use by counting, and their accuracy beside float64."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from prototorch.cuda.kernels.column_tiles import ColumnTiling
from prototorch.cuda.kernels.launch import BLOCK
from tests.cuda.offline.kernel_logic import LAST, random_array, run_kernel
from tests.cuda.offline.shim_device import COMPILER

#: an H100's multiprocessors and the threads that each holds
MULTIPROCESSORS, RESIDENT_THREADS = 132, 2048
BATCH = 256
#: convolutions' outputs before a batch norm, channels last: [rows, channels]; what a thread reads at a time in bf16
RESNET50 = [(112, 64), (56, 64), (56, 256), (28, 128), (28, 512), (14, 256), (14, 1024), (7, 512), (7, 2048)]
LENET = [(28, 6), (10, 16)]


def share_before(rows, channels, pack):
    """Of the threads: chunks of at least 8 rows, at most 4,096, a thread for each vector of a chunk."""
    chunks = min(-(-(1 << 17) // (channels // pack)), -(-rows // 8), 4096)
    return min(1.0, chunks * (channels // pack) / (MULTIPROCESSORS * RESIDENT_THREADS))


def share_after(tiles):
    """Of the threads, those that have a vector of a row; no multiprocessor holds more than its share of the blocks."""
    busy = BLOCK // tiles.vectors * tiles.vectors
    return min(1.0, tiles.blocks * busy / (MULTIPROCESSORS * RESIDENT_THREADS))


@pytest.mark.parametrize(("size", "channels"), RESNET50 + LENET)
def test_the_share_of_a_gpu(size, channels):
    rows, pack = BATCH * size * size, min(8, channels & -channels)
    tiles = ColumnTiling.of(rows, channels, pack)
    assert tiles.vectors * pack * tiles.tiles >= channels
    assert (tiles.chunks - 1) * tiles.chunk < rows <= tiles.chunks * tiles.chunk
    before, after = share_before(rows, channels, pack), share_after(tiles)
    # four rows a thread are read ahead: a chunk smaller than that leaves nothing to wait for
    bytes_in_flight = tiles.blocks * BLOCK * 4 * pack * 2
    assert after >= 0.44 or bytes_in_flight >= rows * channels * 2
    assert after >= before or before >= 0.44
    assert tiles.blocks <= 512, "one block after another on a multiprocessor"
    assert 2 * tiles.chunks * channels * 4 <= 1 << 20, "the workspace of partial sums"


def test_a_few_channels_used_an_eighth_of_a_gpu():
    """What the cut was before: ResNet-50's first batch norm."""
    assert share_before(BATCH * 112 * 112, 64, 8) == pytest.approx(0.12, abs=0.005)
    assert share_after(ColumnTiling.of(BATCH * 112 * 112, 64, 8)) == pytest.approx(0.48, abs=0.01)


@pytest.mark.skipif(COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed")
@pytest.mark.parametrize(("shape", "layout"), [
    ((3, 6, 9, 7), LAST), ((2, 24, 5, 5), LAST), ((1200, 3), None), ((37, 148), None), ((1, 8, 1, 1), LAST),
    ((5, 1, 6, 6), LAST),
])  # fmt: skip
def test_statistics_beside_float64(device, shape, layout):
    """A mean of 1000 with deviations of 1: sums of squares of float32 would have lost them."""
    x, attrs = random_array(*shape) + 1000, {"axis": 1, "eps": 1e-3}
    gamma, beta = random_array(shape[1], seed=1), random_array(shape[1], seed=2)
    one = [layout, None, None]
    _, mean, var = run_kernel(device, "batch_norm", [x, gamma, beta], attrs, one, one)
    axes = tuple(a for a in range(len(shape)) if a != 1)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axes), rtol=1e-6)
    np.testing.assert_allclose(var, exact.var(axes), rtol=2e-4, atol=1e-6)
    g = random_array(*shape, seed=3)
    laid = [layout, layout, None, None, None]
    _, dgamma, dbeta = run_kernel(device, "batch_norm_grad", [g, x, gamma, mean, var], attrs, laid, one)
    exact_g = g.astype(np.float64)
    along = tuple(-1 if a == 1 else 1 for a in range(len(shape)))
    off = (exact - mean.astype(np.float64).reshape(along)) / np.sqrt(var.astype(np.float64) + 1e-3).reshape(along)
    near = 1e-5 * np.sqrt(prod(shape) / shape[1])
    np.testing.assert_allclose(dbeta, exact_g.sum(axes), rtol=1e-5, atol=near)
    np.testing.assert_allclose(dgamma, (exact_g * off).sum(axes), rtol=1e-4, atol=10 * near)


@pytest.mark.skipif(COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed")
@pytest.mark.parametrize(("shape", "axis", "layout"), [
    ((500, 12), 0, None), ((130, 3), 0, None), ((9, 8, 4, 5), (0, 2, 3), LAST), ((40, 4, 30), (0, 1), None),
    ((300, 1), 0, None),
])  # fmt: skip
def test_sums_of_columns(device, shape, axis, layout):
    """Gradients of biases: sums over all axes but the last of memory."""
    x = random_array(*shape) + 10
    before = len(device.launched)
    for name in ("sum", "mean"):
        (y,) = run_kernel(device, name, [x], {"axis": axis}, [layout])
        want = getattr(np, name)(x.astype(np.float64), axis=axis)
        np.testing.assert_allclose(y, want, rtol=1e-6)
    assert device.launched[before:] == ["column_sums", "column_sums_end"] * 2 or shape[-1] == 1


@pytest.mark.skipif(COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed")
def test_the_same_bits_twice(device):
    x, attrs = random_array(40, 12, 5, 5), {"axis": 1, "eps": 1e-3}
    vectors = [random_array(12, seed=1), random_array(12, seed=2)]
    runs = [
        run_kernel(device, "batch_norm", [x, *vectors], attrs, [LAST, None, None], [LAST, None, None]) for _ in range(2)
    ]
    for one, two in zip(*runs, strict=True):
        assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(two).tobytes()
