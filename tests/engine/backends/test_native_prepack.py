"""Weights that are brought into the kernels' order beforehand give what weights arranged in each run give."""

from dataclasses import replace

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
cpu = pytest.importorskip("prototorch.engine.backends.cpu").cpu
from prototorch.engine.backends.cpu import worker_pool  # noqa: E402
from prototorch.ops.operators import OPS  # noqa: E402
from prototorch.ops.prepack import OperandUse, apply_prepacked, prepack  # noqa: E402
from prototorch.spec import Spec  # noqa: E402

LAST = native_check.CHANNELS_LAST
# level, input, weights, strides, pads, dilation, groups
CASES = {
    "direct": ("native", (2, 5, 9, 8), (37, 5, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "strided": ("native", (1, 20, 9, 8), (50, 20, 3, 2), (2, 3), ((1, 0), (0, 1)), (1, 1), 1),
    "stride > kernel": ("native", (1, 20, 9, 8), (18, 20, 1, 2), (3, 3), ((0, 0), (0, 0)), (1, 1), 1),
    "groups": ("native", (1, 6, 9, 8), (10, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (2, 1), 2),
    "pointwise": ("native", (2, 20, 7, 7), (34, 20, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "depthwise": ("native", (2, 20, 9, 8), (40, 1, 3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), 20),
    "winograd": ("winograd", (2, 64, 14, 13), (50, 64, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "winograd, many tiles": ("winograd", (20, 32, 14, 13), (48, 32, 3, 3), (1, 1), ((1, 1), (0, 1)), (1, 1), 1),
    "winograd, groups": ("winograd", (16, 64, 12, 12), (96, 32, 5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 2),
}


def numbers(spec, seed):
    return np.random.default_rng(seed).normal(size=spec.shape).astype("float32")


def uses(case):
    """The convolution, its gradient by the input, and a group of the convolution with a bias and an activation."""
    level, shape, weights, strides, pads, dilation, groups = CASES[case]
    attrs = {"strides": strides, "pads": pads, "dilation": dilation, "groups": groups}
    x, w = Spec(shape, layout=LAST), Spec(weights)
    y = replace(OPS["conv"].infer_spec(Spec(shape), w, **attrs), layout=LAST)
    yield level, OperandUse("conv", tuple(sorted(attrs.items())), (x, w), (y,), 1)
    back = {**attrs, "size": shape[2:]}
    yield level, OperandUse("conv_input_grad", tuple(sorted(back.items())), (y, w), (x,), 1)
    program = (("conv", (("in", 1), ("in", 2)), tuple(sorted(attrs.items()))), ("add", (("node", 0, 0), ("in", 0)), ()),
               ("relu", (("node", 1, 0),), ()))  # fmt: skip
    group = {"program": program, "outputs": (("node", 2, 0),), "inplace": ()}
    yield level, OperandUse("fused", tuple(sorted(group.items())), (Spec((weights[0], 1, 1)), x, w), (y,), 2)


def compare(level, use, atol):
    """The kernel that finds its operand arranged against the op's plain body; the same bits on one thread and two."""
    arrays = [numbers(s, i) for i, s in enumerate(use.ins)]
    attrs = dict(use.attrs)
    backend = cpu("native")
    backend.levels = (level,)
    found = backend.pack_request(OPS[use.op], use.ins, use.outs, attrs)
    assert found is not None
    assert found.operand == use.operand
    held = Spec((found.size,))
    w = arrays[use.operand]
    (packed,) = native_check.run_native(
        "prepack", [w], (use.ins[use.operand],), (held,), {"use": use, "size": found.size}, level=level
    )
    ins = tuple(held if i == use.operand else s for i, s in enumerate(use.ins))
    given = [packed if i == use.operand else a for i, a in enumerate(arrays)]
    packed[np.isnan(packed)] = 3.0  # nobody reads what is not written
    before, made = worker_pool.num_threads(), []
    try:
        for threads in (1, 2):
            worker_pool.set_num_threads(threads)
            made.append(native_check.run_native("apply_prepacked", given, ins, use.outs, {"use": use}, level=level))
    finally:
        worker_pool.set_num_threads(before)
    assert [a.tobytes() for a in made[0]] == [a.tobytes() for a in made[1]]
    native_check.close(made[0], native_check.oracle(use.op, arrays, attrs, use.outs), 0.0, atol)


@pytest.mark.parametrize("case", CASES)
def test_arranged_before(bits, case):
    for level, use in uses(case):
        # float32 sums; the change of basis of windows of 5 multiplies and subtracts numbers of different sizes, 85 to 1
        compare(level, use, 4e-4 if level == "winograd" else 1e-5)


def test_without_a_kernel_for_it():
    _, use = next(uses("direct"))
    x, w = (numbers(s, i) for i, s in enumerate(use.ins))
    held = prepack.reference(np, w, use=use, size=w.size + 7)
    got = apply_prepacked.reference(np, x, held, use=use)
    np.testing.assert_array_equal(got, OPS["conv"].reference(np, x, w, **dict(use.attrs)))


# rows, depth, columns, whether the matrix is given as [columns, depth]
PRODUCTS = {
    "one piece": (40, 9, 7, False),
    "an edge": (45, 33, 37, False),
    "turned": (45, 33, 100, True),
    "blocks of rows": (300, 70, 90, False),
    "a deep one": (130, 1100, 65, False),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_products_with_panels(bits, case):
    m, depth, n, turned = PRODUCTS[case]
    own = {"transpose_a": False, "transpose_b": turned}
    x, w = Spec((m // 5, 5, depth)), Spec((n, depth) if turned else (depth, n))
    y = Spec((m // 5, 5, n))
    items = tuple(sorted(own.items()))
    program = (("matmul", (("in", 1), ("in", 2)), items), ("add", (("node", 0, 0), ("in", 0)), ()),
               ("relu", (("node", 1, 0),), ()))  # fmt: skip
    group = {"program": program, "outputs": (("node", 2, 0),), "inplace": ()}
    compare("native", OperandUse("matmul", items, (x, w), (y,), 1), 1e-5)
    compare("native", OperandUse("fused", tuple(sorted(group.items())), (Spec((n,)), x, w), (y,), 2), 1e-5)
