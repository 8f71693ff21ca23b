"""Losses as functions: ``pt.losses.mean_squared_error(y_true, y_pred)``, and instances that are called, as in Keras.

Both take tensors, arrays, and symbols of static graphs, where they are part of the graph. A function gives the loss at
each position, an instance the mean, in which masks and sample weights count as Keras counts them.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.functions.creation import tensor
from prototorch.eager.tensor import Tensor
from prototorch.eager.value_bounds import bounded
from prototorch.errors import DataError, ShapeError, UsageError
from prototorch.graph.symbolic_functions import SYMBOLIC_FUNCTIONS, argument_symbols
from prototorch.losses.base import Loss, combine_masks, expand_trailing
from prototorch.schema.neutral_arguments import positional_names

__all__ = ["LossFunction", "call_loss"]


class LossFunction:
    """A loss as a function: ``function(y_true, y_pred)``, and the loss's fields as further arguments, in Keras' order.

    It gives the loss at each position, of the outputs' shape without the last axis, over which the mean is taken (or
    along which the classes lie). y_true: targets as the loss takes them. y_pred: outputs [batch, ...]. Arrays become
    tensors, on the device of the other argument. Raises ShapeError where both do not match.
    """

    def __init__(self, name: str):
        self.__module__, self.__name__, self.__qualname__ = "prototorch.losses", name, name

    @property
    def loss_class(self) -> Any:
        """The loss whose fields the function takes; its module is imported when it is first asked for."""
        return Loss.lookup(self.__name__)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"{self.loss_class.__doc__}\n\n    As a function: the loss at each position, see `LossFunction`."

    @property
    def __signature__(self) -> inspect.Signature:
        parameters = inspect.signature(self.loss_class).parameters
        fields = [parameters[name] for name in self._field_names() if name in parameters]
        sides = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("y_true", "y_pred")]
        return inspect.Signature([*sides, *(p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in fields)])

    def __call__(self, y_true: Any, y_pred: Any, *args: Any, **options: Any) -> Any:
        names = self._field_names()
        for name, value in zip(names, args, strict=False):
            if name in options:
                raise UsageError(f"{self.__name__}: {name} is given twice")
            options[name] = value
        if len(args) > len(names):
            raise UsageError(
                f"{self.__name__} takes y_true, y_pred{''.join(f', {n}' for n in names)}, got {2 + len(args)} arguments"
            )
        return _run(_VALUES, self.loss_class(**options), y_true, y_pred)

    def _field_names(self) -> list[str]:
        """The further arguments in their order: all fields, unlike those of the class, may be given by position."""
        cls = self.loss_class
        return list(dict.fromkeys([*positional_names(cls), *cls.specs(), *vars(cls).get("neutral_arguments", ())]))

    def __reduce__(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__name__}>"


def call_loss(loss: Loss, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
    """See `Loss.__call__`."""
    return _run(_MEAN, loss, y_true, y_pred, sample_weight)


def _run(name: str, loss: Loss, *values: Any) -> Any:
    symbol = next(argument_symbols(list(values)), None)
    if symbol is not None:
        return symbol.call_function(name, (loss, *values), {})
    return SYMBOLIC_FUNCTIONS[name](loss, *values)


def loss_values(loss: Loss, y_true: Any, y_pred: Any) -> Any:
    """The loss at each position, [batch, ...]."""
    output, target = _operands(loss, y_true, y_pred)
    target, values = _position_values(loss, target, output)
    valid = loss.valid_mask(target)
    return values if valid is None else ops.where(valid, values, ops.zeros_like(values))


def mean_loss(loss: Loss, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
    """The mean of the loss over all positions, each times its weight; over those alone that the mask of ``y_pred`` and
    the targets do not exclude."""
    output, target = _operands(loss, y_true, y_pred)
    target, values = _position_values(loss, target, output)
    valid = combine_masks(loss.valid_mask(target), getattr(y_pred, "mask", None))
    if valid is not None:
        share = ops.maximum(ops.mean(ops.cast(valid, dtype=values.dtype), axis=None), 1.0 / valid.spec.size)
        valid = _fit(loss, valid, values, "a mask")
        values = ops.where(valid, values, ops.zeros_like(values)) / share
    if sample_weight is not None:
        weight = ops.cast(_as_value(sample_weight, output), dtype=values.dtype)
        values = values * _fit(loss, weight, values, "sample weights")
    return ops.mean(values, axis=None)


def _position_values(loss: Loss, target: Any, output: Any) -> tuple[Any, Any]:
    """The target as the loss takes it, and the loss at each position."""
    target = loss.match_target(target, loss.target_spec(output.spec), output.spec)
    if loss.target_kind == "classes" and isinstance(target, Tensor) and target.interpreter.has_memory:
        valid, classes = loss.valid_mask(target), output.shape[loss.class_axis]
        labels = target if valid is None else ops.where(valid, target, ops.zeros_like(target))
        bounded(labels, classes, f"{type(loss).__name__}: targets must lie in 0 .. {classes - 1}, got {{}}")
    return target, loss.position_values(loss.values(target, output), output)


def _operands(loss: Loss, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Output and target as values of one interpreter."""
    output = _as_value(y_pred, y_true)
    target = _as_value(y_true, output)
    name = type(loss).__name__
    if not output.ndim:
        raise ShapeError(f"{name} takes outputs [batch, ...], got one number; a batch of one is [number]")
    if loss.target_kind == "classes" and isinstance(target, Tensor) and target.spec.is_float:
        _check_classes(name, target)
    return output if output.spec.is_float else ops.cast(output, dtype="float32"), target


def _as_value(value: Any, other: Any) -> Any:
    """A tensor as it is; an array or numbers as a tensor on the device of the other value."""
    if hasattr(value, "interpreter"):
        return value
    device = other.device if isinstance(other, Tensor) else None
    return tensor(value, device=device)


def _check_classes(name: str, target: Tensor) -> None:
    """Raises DataError for numbers of classes with fractions, where the elements are known."""
    if not target.interpreter.has_memory or target.device.type != "cpu":
        return
    numbers = target.numpy()
    wrong = numbers != np.floor(numbers)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise DataError(f"{name} expects class indices, integers from 0; the target at {list(at)} is {numbers[at]}")


def _fit(loss: Loss, factors: Any, values: Any, what: str) -> Any:
    """Factors of positions in the rank of the values: a trailing axis of one may be missing or superfluous."""
    shape = tuple(factors.shape)
    if len(shape) > values.ndim and shape[-1] == 1:
        shape = shape[:-1]
        factors = ops.reshape(factors, shape=shape)
    if len(shape) > values.ndim or any(n not in (1, m) for n, m in zip(shape, values.shape, strict=False)):
        raise ShapeError(
            f"{type(loss).__name__} gives values of shape {list(values.shape)}, which {what} of shape {list(shape)} do "
            "not match"
        )
    return expand_trailing(factors, values.ndim)


_VALUES, _MEAN = "losses.values", "losses.mean"  # in the files of static graphs
SYMBOLIC_FUNCTIONS.update({_VALUES: loss_values, _MEAN: mean_loss})
