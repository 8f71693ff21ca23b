"""The namespace object of the array API standard."""

from __future__ import annotations

from typing import Any

from prototorch.eager.array_api import creation, manipulation, reductions
from prototorch.eager.array_api.registry import STANDARD
from prototorch.eager.dtype import DTYPES
from prototorch.eager.registry import FUNCTIONS
from prototorch.eager.type_info import finfo, iinfo
from prototorch.errors import UsageError, did_you_mean

__all__ = ["ArrayNamespace", "array_namespace", "creation", "manipulation", "reductions"]

#: the standard's names of functions that are PyTorch's, with the same arguments
_AS_PYTORCH = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "copysign", "cos", "cosh", "divide",
    "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite", "isinf",
    "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc", "matmul", "moveaxis", "searchsorted", "where", "empty_like", "full_like",
    "ones_like", "zeros_like", "from_dlpack",
    "broadcast_shapes", "isin",
)  # fmt: skip
_OTHER_NAMES = {"bitwise_invert": "bitwise_not", "equal": "eq"}
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class ArrayNamespace:
    """The functions, element types and constants of the standard, as attributes."""

    __array_api_version__ = _VERSIONS[-1]

    def __init__(self) -> None:
        names = {name: _OTHER_NAMES.get(name, name) for name in (*_AS_PYTORCH, "bitwise_invert")}
        self.__dict__.update(
            {name: FUNCTIONS[torch_name] for name, torch_name in names.items() if torch_name in FUNCTIONS}
        )
        self.__dict__.update({**STANDARD, **DTYPES, **creation.CONSTANTS, "finfo": finfo, "iinfo": iinfo})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the array namespace has no {name!r}.{did_you_mean(name, self.__dict__)}")

    def __repr__(self) -> str:
        return "<array namespace of prototorch>"


def array_namespace(api_version: str | None = None) -> ArrayNamespace:
    """The namespace. Raises UsageError for a version of the standard that it does not follow."""
    global _namespace
    if api_version is not None and api_version not in _VERSIONS:
        raise UsageError(f"__array_namespace__: the versions {', '.join(_VERSIONS)} are there, not {api_version!r}")
    if _namespace is None:
        _namespace = ArrayNamespace()
    return _namespace


_namespace: ArrayNamespace | None = None
