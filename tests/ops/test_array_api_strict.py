"""The plain bodies use nothing but the array API standard, so that they run on other array modules: on CuPy's arrays.

array-api-strict is the standard and nothing more: it has no implicit conversion from NumPy, no mixing of element types
that the standard does not define, and no function of NumPy's own. It runs on the CPU.
"""

import importlib
from pathlib import Path

import numpy as np
import pytest

from tests.ops.op_case import CASES

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed (the extra test)")

for _path in sorted(Path(__file__).parent.glob("cases_*.py")):
    importlib.import_module(f"tests.ops.{_path.stem}")

strict.set_array_api_strict_flags(api_version="2024.12")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_body_is_portable(case, dtype):
    arrays = case.arrays(dtype)
    with np.errstate(all="ignore"):
        wanted = case.reference(arrays)
        got = case.reference([strict.asarray(a) for a in arrays], strict)
    for mine, theirs in zip(got, wanted, strict=True):
        assert isinstance(mine, type(strict.zeros(1)))
        # the same operations on the same arrays, but for the order of sums where NumPy has a way of its own
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        assert str(mine.dtype).rsplit(".", 1)[-1] == theirs.dtype.name
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=tolerance, atol=tolerance)
