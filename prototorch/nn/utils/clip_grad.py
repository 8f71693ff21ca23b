"""Clipping of gradients, by PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from prototorch import ops
from prototorch.eager.functions.creation import tensor
from prototorch.eager.functions.statistics import vector_norm
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.errors import TrainingError, UsageError

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, a tensor of one element; 0 where there are none.

    norm_type: the p of the p-norm; inf is the largest absolute value. error_if_nonfinite: whether a norm that is
    infinite or NaN raises TrainingError. foreach: accepted as in PyTorch.
    """
    tensor_list = _as_list(tensors)
    if not tensor_list:
        return tensor(0.0)
    norm_type = _number("norm_type", norm_type)
    with no_grad():
        norms = [vector_norm(t.detach(), norm_type) for t in tensor_list]
        total: Tensor = norms[0] if len(norms) == 1 else vector_norm(ops.stack(norms, axis=0), norm_type)
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise TrainingError(
            f"the norm of order {norm_type:g} of the gradients is {float(total)}, and they cannot be clipped; "
            "error_if_nonfinite=False scales them all the same"
        )
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients by max_norm / (total_norm + 1e-6) where that is below 1."""
    max_norm = _number("max_norm", max_norm)
    with no_grad():
        factor = ops.minimum(max_norm / (total_norm + 1e-6), 1.0)
        for gradient in _gradients(parameters):
            scale = factor if factor.dtype == gradient.dtype else ops.cast(factor, dtype=gradient.spec.dtype)
            assign(gradient.detach(), gradient.detach() * scale, "clip_grad_norm_")


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of parameters in place, so that the norm of all together is at most ``max_norm``.

    parameters: an iterable of tensors, or one. norm_type, error_if_nonfinite, foreach: as for `get_total_norm`.

    Gives the norm before. Raises TrainingError as `get_total_norm` does, UsageError for what is no tensor.
    """
    params = _as_list(parameters)
    total = get_total_norm(_gradients(params), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(params, max_norm, total)
    return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit the elements of the gradients of parameters to -clip_value .. clip_value, in place."""
    bound = _number("clip_value", clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            assign(gradient.detach(), ops.clip(gradient.detach(), -bound, bound), "clip_grad_value_")


def _gradients(parameters: Any) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def _as_list(tensors: Tensor | Iterable[Tensor]) -> Sequence[Tensor]:
    tensor_list = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for t in tensor_list:
        if not isinstance(t, Tensor):
            raise UsageError(f"expected tensors, got a {type(t).__module__}.{type(t).__name__}")
    return tensor_list


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number, got {value!r:.60}") from None
