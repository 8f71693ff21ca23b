"""PyTorch's own table of operators, op_db: names, sample inputs, inputs that are errors."""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections import defaultdict
from functools import cache
from typing import Any

import torch


@cache
def op_infos() -> dict[str, list[Any]]:
    """The OpInfos by name. PyTorch's table imports `expecttest` for a class of its own tests, which is not needed
    here: where it is not installed, a module with its one class stands in for the import."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            module = types.ModuleType("expecttest")
            module.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that packages of its own tests are not installed
        from torch.testing._internal.common_methods_invocations import op_db

    found = defaultdict(list)
    for info in op_db:
        found[info.name].append(info)
    return dict(found)


DTYPES = {
    "float32": torch.float32, "float64": torch.float64, "int64": torch.int64, "bool": torch.bool, "uint8": torch.uint8,
    "float16": torch.float16, "bfloat16": torch.bfloat16,
}  # fmt: skip


def dtypes_of(info: Any) -> set[str]:
    """The element types of samples that PyTorch takes on the CPU."""
    return {name for name, dtype in DTYPES.items() if dtype in info.supported_dtypes("cpu")}


def samples(info: Any, dtype: str, limit: int, gradient: bool = False) -> list[Any]:
    """Some of the sample inputs of an operator, spread over all of them."""
    torch.manual_seed(0)
    every = list(info.sample_inputs("cpu", DTYPES[dtype], requires_grad=gradient))
    step = max(len(every) / limit, 1)
    return [every[int(i * step)] for i in range(min(limit, len(every)))]


def error_samples(info: Any, limit: int) -> list[Any]:
    """Some of the inputs for which PyTorch raises."""
    if info.error_inputs_func is None:
        return []
    torch.manual_seed(0)
    return list(info.error_inputs("cpu"))[:limit]
