"""Every op of the table on a GPU, by the kernel that is taken there, against its plain body on the CPU."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from prototorch.spec import Spec

TABLE = Path(__file__).parent.parent / "ops"
sys.path.insert(0, str(TABLE))
op_case = importlib.import_module("op_case")
for _module in sorted(TABLE.glob("cases_*.py")):
    importlib.import_module(_module.stem)


def on_gpu(backend, case, arrays):
    """The outputs, copied back."""
    op = op_case.the_op(case.op)
    specs = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
    outs = op.rule(*specs, **case.attrs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    runner = backend.prepare(op, specs, outs, case.attrs)
    ins, made = [backend.asarray(a) for a in arrays], [backend.empty(o) for o in outs]
    with backend.running():
        runner(ins, made)
    return [np.asarray(backend.to_numpy(m)) for m in made]


@pytest.mark.parametrize("case", op_case.CASES, ids=str)
def test_op(case, gpu):
    arrays = case.arrays("float32")
    with np.errstate(all="ignore"):
        want = case.plain(arrays)
    made = on_gpu(gpu("fp32", deterministic=True), case, arrays)
    for got, expected in zip(made, want, strict=True):
        # sums in another order, and the GPU's own exponentials and logarithms, which are within 2 last places
        size = float(np.max(np.abs(np.asarray(expected, np.float64)), initial=1.0, where=np.isfinite(expected)))
        np.testing.assert_allclose(got, expected, rtol=max(case.tolerance32, 1e-4), atol=1e-5 * size)


@pytest.mark.parametrize("case", [c for c in op_case.CASES if c.op.startswith(("random", "dropout"))], ids=str)
def test_random_bits_are_those_of_the_cpu(case, gpu):
    arrays = case.arrays("float32")
    for got, expected in zip(on_gpu(gpu("fp32"), case, arrays), case.plain(arrays), strict=True):
        np.testing.assert_array_equal(got, np.asarray(expected, got.dtype))
