"""Products with a matrix that was packed beforehand: every way of cutting rows and columns, alone and in a group."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
cpu = pytest.importorskip("prototorch.engine.backends.cpu").cpu
from prototorch.engine.backends.cpu import worker_pool  # noqa: E402
from prototorch.engine.backends.cpu.native.kernels.gemm.packed_gemm import matmul_prepacked, plan_packed_gemm  # noqa: E402
from prototorch.ops.operators import OPS  # noqa: E402
from prototorch.ops.prepack import OperandUse  # noqa: E402
from prototorch.spec import Spec  # noqa: E402

# rows, columns, depth
SIZES = [
    (1, 1, 1), (1, 10, 100), (1, 100, 70), (1, 1000, 33), (2, 37, 5), (5, 64, 16), (7, 100, 1), (8, 17, 40),
    (13, 512, 30), (16, 100, 250), (16, 10, 20), (17, 48, 9), (29, 33, 12), (64, 130, 20), (49, 31, 7), (63, 40, 3),
]  # fmt: skip
LARGE = [(20, 700, 300), (3, 700, 300)]  # more than the threads read whole


def numbers(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def made(use, arrays):
    """What the two parts give, on one thread and on two; their bits must agree."""
    found = cpu("native").pack_request(OPS[use.op], use.ins, use.outs, dict(use.attrs))
    assert found is not None
    assert found.operand == use.operand
    held = Spec((found.size,))
    before, all_made = worker_pool.num_threads(), []
    try:
        for threads in (1, 2):
            worker_pool.set_num_threads(threads)
            (packed,) = native_check.run_native(
                "prepack", [arrays[use.operand]], (use.ins[use.operand],), (held,), {"use": use, "size": found.size}
            )
            assert np.isfinite(packed).all()  # the zeros beyond the columns as well
            ins = tuple(held if i == use.operand else s for i, s in enumerate(use.ins))
            given = [packed if i == use.operand else a for i, a in enumerate(arrays)]
            all_made.append(native_check.run_native("apply_prepacked", given, ins, use.outs, {"use": use}))
    finally:
        worker_pool.set_num_threads(before)
    for one, two in zip(*all_made, strict=True):
        assert one.tobytes() == two.tobytes()
    return all_made[0]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_product(bits, size, turned):
    m, n, depth = size
    x, w = numbers((m, depth), 0), numbers((n, depth) if turned else (depth, n), 1)
    attrs = (("transpose_b", True),) if turned else ()
    use = OperandUse("matmul", attrs, (Spec(x.shape), Spec(w.shape)), (Spec((m, n)),), 1)
    want = native_check.oracle("matmul", [x, w], dict(attrs), use.outs)
    native_check.close(made(use, [x, w]), want, 0.0, 1e-5)  # float32 sums


@pytest.mark.parametrize("size", [*SIZES[::3], *LARGE])
def test_a_product_with_what_follows(bits, size):
    """A bias, an activation, a sum of the size of the result."""
    m, n, depth = size
    x, w, bias, other = numbers((m, depth), 0), numbers((depth, n), 1), numbers((n,), 2), numbers((m, n), 3)
    program = (("matmul", (("in", 1), ("in", 3)), ()), ("add", (("node", 0, 0), ("in", 0)), ()),
               ("relu", (("node", 1, 0),), ()), ("add", (("node", 2, 0), ("in", 2)), ()))  # fmt: skip
    group = {"program": program, "outputs": (("node", 3, 0),), "inplace": ()}
    arrays = [bias, x, other, w]
    use = OperandUse("fused", tuple(sorted(group.items())), tuple(Spec(a.shape) for a in arrays), (Spec((m, n)),), 3)
    native_check.close(made(use, arrays), native_check.oracle("fused", arrays, group, use.outs), 0.0, 1e-5)


def test_rows_of_several_axes(bits):
    """A dense layer over sequences: all that stands before the last axis are rows."""
    x, w = numbers((3, 4, 20), 0), numbers((20, 50), 1)
    use = OperandUse("matmul", (), (Spec(x.shape), Spec(w.shape)), (Spec((3, 4, 50)),), 1)
    native_check.close(made(use, [x, w]), native_check.oracle("matmul", [x, w], {}, use.outs), 0.0, 1e-5)


@pytest.mark.parametrize("ins", [
    ((8, 3), (8, 5), {"transpose_a": True}),
    ((2, 8, 3), (2, 3, 5), {}),
    ((65, 3), (3, 5), {}),
    ((2, 1 << 12), (1 << 12, (1 << 10) + 1), {}),
])  # fmt: skip
def test_what_is_not_packed(ins):
    """Turned rows, several matrices, many rows, a matrix too large to be kept twice."""
    a, b, attrs = ins
    specs = Spec(a), Spec(b)
    assert matmul_prepacked(specs, (OPS["matmul"].infer_spec(*specs, **attrs),), attrs) is None


@pytest.mark.parametrize("size", [*SIZES, *LARGE])
def test_pieces_are_all_rows_and_columns_once(bits, size):
    m, n, depth = size
    p = plan_packed_gemm(m, n, depth, False)
    assert sum(rows * times for rows, times in p.tile_heights) == m
    assert (p.num_panels - 1) * p.width < n <= p.num_panels * p.width
    assert 1 <= p.grain_size <= p.num_panels * p.row_groups
