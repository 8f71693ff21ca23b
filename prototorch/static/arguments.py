"""Arguments of functions in saved graphs: JSON of what they may be, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch.eager.dtype import DTYPES, DType
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.losses import Loss
from prototorch.static.block_text import block_of_text, block_text

__all__ = ["decode_argument", "encode_argument"]


def encode_argument(value: Any, symbol: Callable[[SymbolicTensor], Any], array: Callable[[np.ndarray], str]) -> Any:
    """An argument as JSON. symbol: the JSON of a symbol; array: stores an array, and gives its path.

    Raises UsageError for what a file cannot hold.
    """
    if isinstance(value, SymbolicTensor):
        return {"symbol": symbol(value)}
    if isinstance(value, DType):
        return {"dtype": str(value)}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        number = int(value) if isinstance(value, int) else float(value)
        return number if isinstance(number, int) or math.isfinite(number) else {"float": repr(number)}
    if isinstance(value, Loss):
        return {"loss": block_text(value)}
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return {"array": array(np.array(value.numpy() if isinstance(value, Tensor) else value))}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, slice):
        return {"slice": [encode_argument(x, symbol, array) for x in (value.start, value.stop, value.step)]}
    if isinstance(value, list | tuple):
        items = [encode_argument(x, symbol, array) for x in value]
        return items if isinstance(value, list) else {"tuple": items}
    raise UsageError(f"a graph with an argument {value!r:.60} ({type(value).__name__}) cannot be saved")


def decode_argument(value: Any, symbol: Callable[[Any], SymbolicTensor], array: Callable[[Any], Tensor]) -> Any:
    """The argument that JSON of a file stands for. Raises ValueError for any other JSON."""
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, list):
        return [decode_argument(x, symbol, array) for x in value]
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"an argument is {value!r:.60}")
    ((kind, inner),) = value.items()
    if kind == "symbol":
        return symbol(inner)
    if kind == "loss" and isinstance(inner, str):
        return block_of_text(Loss, inner)
    if kind == "array":
        return array(inner)
    if kind == "ellipsis":
        return Ellipsis
    if kind == "dtype" and inner in DTYPES:
        return DTYPES[inner]
    if kind == "float" and inner in ("inf", "-inf", "nan"):
        return float(inner)
    if kind in ("tuple", "slice") and isinstance(inner, list):
        items = [decode_argument(x, symbol, array) for x in inner]
        if kind == "tuple":
            return tuple(items)
        if len(items) == 3:
            return slice(*items)
    raise ValueError(f"an argument is {value!r:.60}")
