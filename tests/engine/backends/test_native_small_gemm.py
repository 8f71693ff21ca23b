"""Products with one large matrix: of few rows, and of little depth."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
small_m_gemm = pytest.importorskip(
    "prototorch.engine.backends.cpu.native.kernels.gemm.small_m_gemm", exc_type=ImportError
)
small_k_gemm = pytest.importorskip(
    "prototorch.engine.backends.cpu.native.kernels.gemm.small_k_gemm", exc_type=ImportError
)
check = native_check.check
CLOSE = 3e-6  # of the largest element: float32 sums over a depth of some thousand


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize(("m", "depth", "n"), [
    (2, 1050, 1030), (7, 1024, 1024), (16, 1100, 2081), (33, 1061, 1000), (64, 1050, 1001),
])  # fmt: skip
def test_few_rows(bits, m, depth, n):
    assert depth * n >= small_m_gemm.MIN_ELEMENTS
    assert m <= small_m_gemm.MAX_ROWS
    check("matmul", drawn(m, depth), drawn(depth, n, seed=1), atol=CLOSE)


@pytest.mark.parametrize(
    ("m", "depth", "n"), [(1, 600, 500), (3, 517, 523), (16, 512, 1024), (33, 1000, 301), (64, 513, 530)]
)
def test_few_rows_and_a_turned_matrix(bits, m, depth, n):
    assert depth * n >= small_m_gemm.MIN_ELEMENTS_TRANSPOSED
    assert m <= small_m_gemm.MAX_ROWS
    check("matmul", drawn(m, depth), drawn(n, depth, seed=1), atol=CLOSE, transpose_b=True)


@pytest.mark.parametrize(
    ("m", "depth", "n"), [(513, 1, 515), (530, 16, 1000), (512, 37, 1024), (601, 128, 520), (27, 100, 9999)]
)
def test_little_depth(bits, m, depth, n):
    assert m * n >= small_k_gemm.MIN_ELEMENTS
    assert depth <= small_k_gemm.MAX_DEPTH
    check("matmul", drawn(depth, m), drawn(depth, n, seed=1), atol=CLOSE, transpose_a=True)


def test_rows_of_several_dimensions(bits):
    check("matmul", drawn(2, 3, 1050), drawn(1050, 1030, seed=1), atol=CLOSE)
    check("matmul", drawn(2, 3, 517), drawn(523, 517, seed=1), atol=CLOSE, transpose_b=True)


def test_what_follows_the_product(bits):
    relu = (
        ("matmul", (("in", 0), ("in", 1)), ()),
        ("add", (("node", 0, 0), ("in", 2)), ()),
        ("relu", (("node", 1, 0),), ()),
    )
    x, w, b = drawn(5, 1050), drawn(1050, 1030, seed=1), drawn(1030, seed=2)
    check("fused", x, w, b, atol=CLOSE, program=relu, outputs=(("node", 2, 0),), inplace=())
    slope = (
        ("matmul", (("in", 0), ("in", 1)), (("transpose_b", True),)),
        ("relu_grad", (("in", 2), ("node", 0, 0)), ()),
    )
    g, w, y = drawn(5, 517), drawn(523, 517, seed=1), drawn(5, 523, seed=2)
    check("fused", g, w, y, atol=CLOSE, program=slope, outputs=(("node", 1, 0),), inplace=())


def test_an_update_of_the_weights(bits):
    program = (
        ("matmul", (("in", 0), ("in", 1)), (("transpose_a", True),)),
        ("momentum_update", (("in", 2), ("node", 0, 0), ("in", 3), ("in", 4), ("in", 5)), (("momentum", 0.9),)),
    )
    w, v = drawn(523, 517, seed=2), drawn(523, 517, seed=3)
    rate, step = np.float32(0.01), np.int64(3)
    check("fused", drawn(9, 523), drawn(9, 517, seed=1), w, np.asarray(rate), np.asarray(step), v, atol=CLOSE,
          program=program, outputs=(("node", 1, 0), ("node", 1, 1)), inplace=((0, 2), (1, 5)))  # fmt: skip
