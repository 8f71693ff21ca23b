"""Every operator of PyTorch's op_db whose function exists here: samples, gradients and errors, compared with PyTorch.

One test a name. The ordinary run takes a few samples of each, ``-m slow`` all of them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from prototorch.errors import PrototorchError, ShapeError, UsageError
from tests.eager.op_db.compare import UnsupportedSampleError, describe, flat, run_sample, to_ours
from tests.eager.op_db.known import (
    ADAPTERS,
    LEFT_OUT,
    LOOSE,
    NO_ERRORS,
    NO_ERRORS_ANYWHERE,
    RANDOM,
    RANDOM_SAMPLES,
    REFUSALS,
    ROUNDED,
    VARIANTS_LEFT_OUT,
)
from tests.eager.op_db.missing import missing_names
from tests.eager.op_db.resolve import find_function
from tests.eager.op_db.torch_op_db import dtypes_of, error_samples, op_infos, samples

NAMES = sorted(name for name in op_infos() if name in ADAPTERS or find_function(name) is not None)
FEW, ALL = 2, 100000


def our_function(name: str, variant: str = "") -> Any:
    return ADAPTERS.get(f"{name}.{variant}") or ADAPTERS.get(name) or find_function(name)


def compare_samples(name: str, limit: int, dtypes: tuple[str, ...]) -> int:
    """Run the samples of an operator; gives how many were compared."""
    count = 0
    for info in op_infos()[name]:
        if f"{name}.{info.variant_test_name}" in VARIANTS_LEFT_OUT:
            continue
        function = our_function(name, info.variant_test_name)
        for dtype in dtypes:
            if dtype not in dtypes_of(info) or (name, dtype) in LEFT_OUT:
                continue
            gradient = dtype == "float64" and info.supports_autograd and name not in RANDOM
            for sample in samples(info, dtype, limit, gradient):
                try:
                    if name in RANDOM or (name in RANDOM_SAMPLES and RANDOM_SAMPLES[name](sample)):
                        compare_shapes(function, info.op, sample)
                    else:
                        factor = LOOSE.get(name, 1.0) if dtype == "float32" else LOOSE.get((name, dtype), 1.0)
                        rounding = ROUNDED.get(name, 0) if dtype == "uint8" else 0
                        run_sample(function, info.op, sample, gradient, factor, rounding)
                    count += 1
                except UnsupportedSampleError:
                    continue
                except (UsageError, ShapeError) as error:
                    if REFUSALS.get(name, "nothing") not in str(error):
                        raise
    return count


def compare_shapes(ours: Any, theirs: Any, sample: Any) -> None:
    """Shapes and element types of random results are equal."""
    input_, args, kwargs = (to_ours(v) for v in (sample.input, sample.args, sample.kwargs))
    for a, b in zip(
        flat(ours(input_, *args, **kwargs)), flat(theirs(sample.input, *sample.args, **sample.kwargs)), strict=True
    ):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", NAMES)
def test_some_samples(name):
    dtypes = ("float64", "int64", "bool")
    is_compared = compare_samples(name, FEW, dtypes)
    assert is_compared or not any(
        (name, dtype) not in LEFT_OUT for info in op_infos()[name] for dtype in set(dtypes) & dtypes_of(info)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name):
    compare_samples(name, ALL, ("float64", "float32", "int64", "bool", "uint8"))


def accepted_errors(name: str) -> list[str]:
    """The inputs that PyTorch refuses and we take."""
    found = []
    for info in op_infos()[name]:
        for error in error_samples(info, ALL):
            sample, message = error.sample_input, str(error.error_regex)
            try:
                arguments = [to_ours(v) for v in (sample.input, sample.args, sample.kwargs)]
            except (UnsupportedSampleError, RuntimeError, ValueError):
                continue
            if any(text in message for text in (*NO_ERRORS.get(name, {}), *NO_ERRORS_ANYWHERE)):
                continue
            if not message and any(isinstance(v, int | float) for v in (sample.input, *sample.args)):
                continue  # a number for one of two tensors, which our functions take as the operators do
            try:
                our_function(name, info.variant_test_name)(arguments[0], *arguments[1], **arguments[2])
            except (PrototorchError, TypeError):
                continue
            what = f"{describe(sample.input)}, {describe(sample.args)}, {describe(sample.kwargs)}"
            found.append(f"{name}({what}): {message}")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_pytorch_refuses_is_refused(name):
    assert accepted_errors(name) == []


def test_every_name_is_there_or_missing_for_a_reason():
    missing = missing_names()
    assert all(missing.values())
    assert sorted(set(op_infos()) - set(NAMES) - set(missing)) == []
    assert sorted(set(missing) - set(op_infos())) == []
    assert sorted(set(missing) & set(NAMES)) == []


def test_the_comparison_sees_a_wrong_value():
    info = op_infos()["exp"][0]
    sample = samples(info, "float64", 1)[0]
    with pytest.raises(AssertionError):
        run_sample(lambda x: our_function("exp")(x) * 1.001, info.op, sample)
    with pytest.raises(AssertionError):
        run_sample(lambda x: our_function("exp")(x).float(), info.op, sample)
    with pytest.raises(AssertionError):
        run_sample(
            lambda x: our_function("exp")(x.detach()) + x - x.detach(),
            info.op,
            samples(info, "float64", 1, True)[0],
            gradient=True,
        )
