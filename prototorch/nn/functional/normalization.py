"""Normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def _affine(x: Any, weight: Any, bias: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Weight and bias, 1 and 0 where they are None."""
    dtype = str(x.dtype)
    gamma = ops.full.apply_like(x, shape=shape, value=1.0, dtype=dtype) if weight is None else weight
    beta = ops.full.apply_like(x, shape=shape, value=0.0, dtype=dtype) if bias is None else bias
    return gamma, beta


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Batch normalization of [batch, channels, ...] (Ioffe and Szegedy, 2015).

    training: whether the statistics are those of the batch; then the running ones, tensors [channels] or None, change
    by the fraction ``momentum`` (a number or a tensor without dimensions). Raises UsageError where there is one value a
    channel alone, or no statistics.
    """
    _check_channels("batch_norm", input, (running_mean, running_var, weight, bias))
    gamma, beta = _affine(input, weight, bias, (input.shape[1],))
    if not training:
        if running_mean is None or running_var is None:
            raise UsageError("batch_norm: outside training it needs running_mean and running_var")
        return ops.batch_norm_inference(input, gamma, beta, running_mean, running_var, eps=float(eps), axis=1)
    count = input.spec.size // max(input.shape[1], 1)
    if not count:
        return input * 1.0
    if count < 2:
        raise UsageError(f"batch_norm: in training it needs more than one value a channel, got {list(input.shape)}")
    y, mean, variance = ops.batch_norm(input, gamma, beta, eps=float(eps), axis=1)
    with no_grad():
        _move("running_mean", running_mean, mean, momentum)
        _move("running_var", running_var, variance * (count / (count - 1)), momentum)
    return y


def _check_channels(name: str, x: Any, vectors: tuple[Any, ...]) -> None:
    check_input(x, name)
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected an input [batch, channels, ...], got {list(x.shape)}")
    for v in vectors:
        if v is not None and tuple(v.shape) != (x.shape[1],):
            raise ShapeError(
                f"{name}: the input {list(x.shape)} needs vectors of shape [{x.shape[1]}], got {list(v.shape)}"
            )


def _move(name: str, running: Any, value: Any, momentum: Any) -> None:
    if running is not None:
        old, new = running.detach(), ops.stop_gradient(value)
        new = new if new.dtype == old.dtype else ops.cast(new, dtype=str(old.dtype))
        assign(running, old + (new - old) * momentum, name)


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalization of each channel of each sample of [batch, channels, ...] (Ulyanov et al., 2016).

    use_input_stats: whether the statistics are those of the input; then the running ones change, if there are any.
    """
    _check_channels("instance_norm", input, (running_mean, running_var, weight, bias))
    gamma, beta = _affine(input, weight, bias, (input.shape[1],))
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise UsageError("instance_norm: without use_input_stats it needs running_mean and running_var")
        return ops.batch_norm_inference(input, gamma, beta, running_mean, running_var, eps=float(eps), axis=1)
    count = math.prod(input.shape[2:])
    if count < 2:
        raise UsageError(f"instance_norm: it needs more than one element a channel, got {list(input.shape)}")
    if running_mean is not None or running_var is not None:
        with no_grad():
            x = input.detach()
            axes = tuple(range(2, x.ndim))
            mean = ops.mean(x, axis=axes, keepdims=True)
            variance = ops.sum(ops.square(x - mean), axis=axes) * (1 / (count - 1))
            _move("running_mean", running_mean, ops.mean(ops.mean(x, axis=axes), axis=0), momentum)
            _move("running_var", running_var, ops.mean(variance, axis=0), momentum)
    return ops.group_norm(input, gamma, beta, groups=input.shape[1], eps=float(eps))


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalization of groups of channels of each sample of [batch, channels, ...] (Wu and He, 2018)."""
    _check_channels("group_norm", input, (weight, bias))
    if num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {input.shape[1]} channels do not divide into {num_groups} groups")
    gamma, beta = _affine(input, weight, bias, (input.shape[1],))
    return ops.group_norm(input, gamma, beta, groups=int(num_groups), eps=float(eps))


def _trailing(name: str, x: Any, shape: Any, vectors: tuple[Any, ...]) -> tuple[int, ...]:
    check_input(x, name)
    sizes = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if not sizes or tuple(x.shape[x.ndim - len(sizes) :]) != sizes or len(sizes) > x.ndim:
        raise ShapeError(f"{name}: the last dimensions of {list(x.shape)} must be normalized_shape {list(sizes)}")
    for v in vectors:
        if v is not None and tuple(v.shape) != sizes:
            raise ShapeError(f"{name}: expected weight and bias of shape {list(sizes)}, got {list(v.shape)}")
    return sizes


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalization over the last dimensions, which have the sizes ``normalized_shape`` (Ba et al., 2016)."""
    sizes = _trailing("layer_norm", input, normalized_shape, (weight, bias))
    gamma, beta = _affine(input, weight, bias, sizes)
    return ops.layer_norm(input, gamma, beta, axis=tuple(range(-len(sizes), 0)), eps=float(eps))


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """x / sqrt(mean(x^2) + eps) over the last dimensions (Zhang and Sennrich, 2019). eps: default the element type's
    machine epsilon."""
    sizes = _trailing("rms_norm", input, normalized_shape, (weight,))
    default_epsilons = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
    dtype = str(input.dtype)
    epsilon = (default_epsilons.get(dtype) or float(np.finfo(dtype).eps)) if eps is None else float(eps)
    axes = tuple(range(input.ndim - len(sizes), input.ndim))
    y = input * ops.rsqrt(ops.mean(ops.square(input), axis=axes, keepdims=True) + epsilon)
    return y if weight is None else y * weight


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """x / (k + alpha * mean of x^2 over ``size`` neighbouring channels)^beta, of [batch, channels, ...] (Krizhevsky et
    al., 2012); channels beyond the ends are 0."""
    check_input(input, "local_response_norm")
    if input.ndim < 3 or size < 1:
        raise ShapeError(
            f"local_response_norm: expected 3 or more dimensions and a positive size, got "
            f"{list(input.shape)} and {size}"
        )
    if size % 2:
        return ops.lrn(input, size=int(size), alpha=float(alpha), beta=float(beta), k=float(k))[0]
    channels = input.shape[1]
    rest = ((0, 0),) * (input.ndim - 2)
    wide = ops.pad(ops.square(input), pads=((0, 0), (size // 2, (size - 1) // 2), *rest))
    parts = [FUNCTIONS["narrow"](wide, 1, i, channels) for i in range(size)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return input / (total * (alpha / size) + k) ** beta
