"""Dropout, and the randomized leaky ReLU."""

from __future__ import annotations

import math
from typing import Any

from prototorch import ops
from prototorch.eager.functions.random import uniform_elements
from prototorch.eager.generator import keys_of
from prototorch.eager.in_place import assign
from prototorch.eager.key_tensor import key_tensor
from prototorch.eager.registry import in_place_form, tensor_function
from prototorch.eager.tape import next_entry_number
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "rrelu",
           "rrelu_"]  # fmt: skip

_SELU_LIMIT = -1.7580993408473766  # SELU of minus infinity


def _check(input: Any, p: float, name: str) -> None:
    check_input(input, name)
    if not 0 <= p <= 1:
        raise UsageError(f"{name}: the probability must lie in [0, 1], got {p}")


def _drop(x: Any, p: float, noise_shape: tuple[int, ...] | None) -> Any:
    if p == 1:
        return x * 0.0
    return ops.dropout(x, key_tensor(keys_of(None), x.interpreter), rate=float(p), site=0, noise_shape=noise_shape)


def _finish(input: Any, inplace: bool, name: str, compute: Any) -> Any:
    if not inplace:
        return compute(input)
    since = next_entry_number()
    return assign(input, compute(input), name, since)


@tensor_function(method=False)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Elements become 0 with the probability p, the others are divided by 1 - p (Srivastava et al., 2014); outside
    training the input."""
    _check(input, p, "dropout")
    if not training or not p:
        return input
    return _finish(input, inplace, "dropout", lambda x: _drop(x, p, None))


def _channels(input: Any, p: float, training: bool, inplace: bool, rank: int) -> Any:
    name = f"dropout{rank}d"
    _check(input, p, name)
    without_batch = {1: (2,), 2: (), 3: (4,)}[rank]
    allowed = (rank + 2, *without_batch, *((3,) if rank == 2 else ()))
    if input.ndim not in allowed:
        raise ShapeError(
            f"{name}: expected an input of {' or '.join(map(str, sorted(allowed)))} dimensions, got {list(input.shape)}"
        )
    if not training or not p:
        return input
    leading = 1 if input.ndim in without_batch else 2
    noise = (*input.shape[:leading], *(1,) * (input.ndim - leading))
    return _finish(input, inplace, name, lambda x: _drop(x, p, tuple(noise)))


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of [batch, channels, steps] (or without the batch) become 0, as `dropout`."""
    return _channels(input, p, training, inplace, 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of [batch, channels, rows, columns] become 0, as `dropout`."""
    return _channels(input, p, training, inplace, 2)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of [batch, channels, depth, rows, columns] (or without the batch) become 0, as `dropout`."""
    return _channels(input, p, training, inplace, 3)


def _alpha(input: Any, p: float, training: bool, inplace: bool, name: str, by_channel: bool) -> Any:
    _check(input, p, name)
    if not training or not p:
        return input
    noise = (*input.shape[:2], *(1,) * (input.ndim - 2)) if by_channel else tuple(input.shape)

    def compute(x: Any) -> Any:
        if p == 1:
            return x * 0.0
        ones = ops.broadcast_to(ops.zeros_like(x) + (1.0 - p), shape=tuple(noise))
        keep = _drop(ones, p, None)
        scale = 1 / math.sqrt((_SELU_LIMIT**2 * p + 1) * (1 - p))
        return x * keep * scale + (1 - keep) * (_SELU_LIMIT * scale) - _SELU_LIMIT * scale * p

    return _finish(input, inplace, name, compute)


@tensor_function(method=False)
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Elements become SELU's limit with the probability p, so that mean and variance stay (Klambauer et al., 2017)."""
    return _alpha(input, p, training, inplace, "alpha_dropout", False)


@tensor_function(method=False)
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """As `alpha_dropout`, of whole channels of [batch, channels, ...]."""
    return _alpha(input, p, training, inplace, "feature_alpha_dropout", True)


@tensor_function(method=False)
def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Any:
    """x where x > 0, else a * x, with a uniform in [lower, upper] in training, their mean outside (Xu et al., 2015)."""
    check_input(input, "rrelu")
    if lower > upper:
        raise UsageError(f"rrelu: expected lower <= upper, got {lower} and {upper}")

    def compute(x: Any) -> Any:
        if not training:
            return ops.leaky_relu(x, negative_slope=(lower + upper) / 2)
        factor = uniform_elements(tuple(x.shape), lower, upper, x.dtype, x.interpreter)
        return ops.where(ops.greater(x, 0), x, x * factor)

    return _finish(input, inplace, "rrelu", compute)


rrelu_ = in_place_form(rrelu, "rrelu_")
