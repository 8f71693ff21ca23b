"""Every function of tensors that PyTorch's op_db has samples of, on the GPU beside the CPU, with gradients.

Most ops run by reference implementations on CuPy here, in the element types that there are no kernels of: they must run
in the order of the calls, on their stream, and give the CPU's results.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import prototorch as pt

pytest.importorskip("torch", reason="the samples are PyTorch's")

from prototorch.compiler.signature import collect_tensors
from prototorch.cuda.availability import unavailable_reason
from prototorch.errors import ShapeError, UsageError
from tests.cuda.gpu.device_cases import assert_same_call
from tests.eager.op_db.compare import UnsupportedSampleError, to_ours
from tests.eager.op_db.known import LEFT_OUT, REFUSALS, VARIANTS_LEFT_OUT
from tests.eager.op_db.test_op_db import NAMES, our_function
from tests.eager.op_db.torch_op_db import dtypes_of, op_infos, samples

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

SAMPLES = 2
#: functions whose results are not where a tensor is that they are given
CREATION = {
    "arange", "empty", "eye", "full", "linspace", "logspace", "normal", "ones", "randint", "randn", "scalar_tensor",
    "tril_indices", "triu_indices", "zeros",
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet(eager_gpu):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_tensors(name):
    compared = 0
    for info in op_infos()[name]:
        if f"{name}.{info.variant_test_name}" in VARIANTS_LEFT_OUT:
            continue
        function = our_function(name, info.variant_test_name)
        for dtype in ("float32", "int64", "bool"):
            if dtype not in dtypes_of(info) or (name, dtype) in LEFT_OUT:
                continue
            gradient = dtype == "float32" and info.supports_autograd
            for sample in samples(info, dtype, SAMPLES, gradient):
                compared += compare(name, function, sample, gradient)
    if not compared:
        pytest.skip("no sample is for tensors as there are here")


def compare(name, function, sample, gradient):
    try:
        arguments, options = to_ours((sample.input, *sample.args)), to_ours(dict(sample.kwargs))
        if name in CREATION and not collect_tensors(arguments):
            options["device"] = pt.device("cpu")
        assert_same_call(function, arguments, options, gradient)
    except UnsupportedSampleError:
        return 0
    except (UsageError, ShapeError) as error:
        if REFUSALS.get(name, "nothing") not in str(error):
            raise
        return 0
    return 1
