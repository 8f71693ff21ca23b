"""First and second derivatives of every function of PyTorch's op_db that exists here, beside finite differences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.autograd import gradcheck, gradgradcheck
from prototorch.errors import ShapeError, UsageError
from tests.eager.op_db.compare import UnsupportedSampleError, flat, to_ours
from tests.eager.op_db.known import (
    NO_GRADIENT_CHECK,
    RANDOM,
    RANDOM_SAMPLES,
    REFUSALS,
    VARIANTS_LEFT_OUT,
    VARIANTS_WITHOUT_GRADIENT_CHECK,
)
from tests.eager.op_db.test_op_db import NAMES, our_function
from tests.eager.op_db.torch_op_db import dtypes_of, op_infos, samples

SMALL = 60  # elements of a sample's inputs; larger ones take minutes


def small_samples(info: Any, limit: int) -> list[Any]:
    """Samples of float64 with few elements and a gradient."""
    found = []
    for sample in samples(info, "float64", 100000, gradient=True):
        values = flat([sample.input, list(sample.args), list(sample.kwargs.values())])
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        if 0 < sum(v.numel() for v in tensors if v.requires_grad) <= SMALL:
            found.append(sample)
    return found[:: max(len(found) // limit, 1)][:limit]


#: variants whose samples are where there is no derivative
KINKS = ("subgradients_at_zero",)


def of_symmetric(function: Any) -> Any:
    """The function of symmetric matrices, for which alone it is defined."""
    return lambda x, *args, **options: function(x + x.mT, *args, **options)


def check(name: str, limit: int, second: bool) -> None:
    for info in op_infos()[name]:
        if "float64" not in dtypes_of(info) or not info.supports_autograd or (second and not info.supports_gradgrad):
            continue
        variant = f"{name}.{info.variant_test_name}"
        if info.variant_test_name in KINKS or variant in {**VARIANTS_LEFT_OUT, **VARIANTS_WITHOUT_GRADIENT_CHECK}:
            continue
        function = our_function(name, info.variant_test_name)
        if info.gradcheck_wrapper.__name__ == "gradcheck_wrapper_hermitian_input":
            function = of_symmetric(function)
        for sample in small_samples(info, limit):
            if name in RANDOM_SAMPLES and RANDOM_SAMPLES[name](sample):
                continue
            leaves: list[tuple[Any, Any]] = []
            try:
                input_, args, kwargs = (to_ours(v, leaves) for v in (sample.input, sample.args, sample.kwargs))
                check_sample(function, sample.output_process_fn_grad, input_, args, kwargs, second)
            except UnsupportedSampleError:
                continue
            except (UsageError, ShapeError) as error:
                if REFUSALS.get(name, "nothing") not in str(error):
                    raise


def check_sample(function: Any, process: Any, input_: Any, args: Any, kwargs: Any, second: bool) -> None:
    """gradcheck (and gradgradcheck) of the float64 results by all leaves of float64."""
    values = flat([input_, list(args), list(kwargs.values())])
    leaves = [v for v in values if isinstance(v, pt.Tensor) and v.requires_grad and v.dtype == pt.float64]

    def of_leaves(*values: Any) -> Any:
        new = dict(zip(map(id, leaves), values, strict=True))

        def replace(v: Any) -> Any:
            if isinstance(v, list | tuple) and not hasattr(v, "_fields"):
                return type(v)(map(replace, v))
            return new.get(id(v), v)

        result = process(function(replace(input_), *replace(tuple(args)), **{k: replace(v) for k, v in kwargs.items()}))
        found = tuple(v for v in flat(result) if isinstance(v, pt.Tensor) and v.dtype == pt.float64 and v.requires_grad)
        return found[0] if len(found) == 1 else found

    first = of_leaves(*leaves)
    if isinstance(first, tuple) and not first:
        return
    assert gradcheck(of_leaves, tuple(leaves))
    if second and any(v.grad_fn is not None for v in flat(first)):
        assert gradgradcheck(of_leaves, tuple(leaves))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


CHECKED = [n for n in NAMES if n not in RANDOM and n not in NO_GRADIENT_CHECK]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_first_and_second_derivatives(name):
    check(name, 3, second=True)


@pytest.mark.parametrize("name", ["mul", "cumprod", "norm", "linalg.svd", "einsum", "logcumsumexp"])
def test_some_derivatives(name):
    check(name, 1, second=True)
