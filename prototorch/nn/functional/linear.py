"""Affine maps, and the softmax family."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.dtype import as_dtype
from prototorch.eager.functions.random import uniform_elements
from prototorch.eager.operands import cast_to
from prototorch.eager.registry import FUNCTIONS, tensor_function
from prototorch.errors import ModelWarning, ShapeError, UsageError, warn_user
from prototorch.nn.arguments import check_input

__all__ = ["bilinear", "cosine_similarity", "gumbel_softmax", "linear", "log_softmax", "normalize", "pairwise_distance",
           "pdist", "softmax", "softmin"]  # fmt: skip


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """x W^T + b: input [..., in], weight [out, in] (or [in]), bias [out]; gives [..., out]."""
    check_input(input, "linear")
    check_input(weight, "linear")
    if not input.ndim or weight.ndim not in (1, 2) or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: an input {list(input.shape)} does not fit a weight {list(weight.shape)}: the last dimensions "
            "must be the same"
        )
    if weight.ndim == 1:
        y = ops.sum(input * weight, axis=-1)
    else:
        x = input if input.ndim > 1 else ops.expand_dims(input, axis=0)
        y = ops.matmul(x, weight, transpose_b=True)
        y = y if input.ndim > 1 else ops.squeeze(y, axis=0)
    return y if bias is None else y + bias


@tensor_function(method=False)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1^T A x2 + b: input1 [..., in1], input2 [..., in2], weight [out, in1, in2], bias [out]."""
    check_input(input1, "bilinear")
    check_input(input2, "bilinear")
    if input1.shape[:-1] != input2.shape[:-1] or (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:]):
        raise ShapeError(
            f"bilinear: the inputs {list(input1.shape)} and {list(input2.shape)} do not fit a weight "
            f"{list(weight.shape)}: expected [..., {weight.shape[1]}] and [..., {weight.shape[2]}]"
        )
    out, first, second = weight.shape
    rows = tuple(input1.shape[:-1])
    flat = ops.reshape(input1, shape=(input1.spec.size // first, first))
    other = ops.reshape(input2, shape=(input2.spec.size // second, second))
    matrix = ops.reshape(ops.transpose(weight, order=(1, 0, 2)), shape=(first, out * second))
    products = ops.reshape(ops.matmul(flat, matrix), shape=(flat.shape[0], out, second))
    y = ops.sum(products * ops.expand_dims(other, axis=1), axis=-1)
    y = ops.reshape(y, shape=(*rows, out))
    return y if bias is None else y + bias


def _implicit_dim(name: str, ndim: int, dim: int | None) -> int:
    if dim is not None:
        return dim
    warn_user(f"{name}: without dim= it is chosen by the number of dimensions; say which one", ModelWarning)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along a dimension."""
    check_input(input, "softmax")
    return FUNCTIONS["softmax"](input, _implicit_dim("softmax", input.ndim, dim), dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log(softmax(x)) along a dimension, without overflow."""
    check_input(input, "log_softmax")
    return FUNCTIONS["log_softmax"](input, _implicit_dim("log_softmax", input.ndim, dim), dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(-x) along a dimension."""
    check_input(input, "softmin")
    return FUNCTIONS["softmax"](-input, _implicit_dim("softmin", input.ndim, dim), dtype=dtype)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A sample of the Gumbel-softmax distribution (Jang et al., 2017) along a dimension; ``hard`` gives one-hot rows
    with the gradient of the soft ones."""
    check_input(logits, "gumbel_softmax")
    u = uniform_elements(tuple(logits.shape), 1e-7, 1.0, logits.dtype, logits.interpreter)
    soft = FUNCTIONS["softmax"]((logits - ops.log(-ops.log(u))) * (1 / tau), dim)
    if not hard:
        return soft
    axis = dim % logits.ndim
    index = ops.argmax(soft, axis=axis)
    one_hot = ops.one_hot(index, classes=logits.shape[axis], dtype=str(logits.dtype))
    order = list(range(logits.ndim - 1))
    order.insert(axis, logits.ndim - 1)
    return ops.stop_gradient(ops.transpose(one_hot, order=tuple(order)) - soft) + soft


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """x / max(norm(x), eps) along a dimension."""
    check_input(input, "normalize")
    if out is not None:
        raise UsageError("normalize: out= is no argument here; assign the result")
    norm = FUNCTIONS["norm"](input, p, dim, keepdim=True)
    return input / FUNCTIONS["clamp"](norm, min=eps)


@tensor_function(method=False)
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between two tensors along a dimension; norms are at least ``eps``."""
    check_input(x1, "cosine_similarity")
    check_input(x2, "cosine_similarity")
    dtype = FUNCTIONS["result_type"](x1, x2) if "result_type" in FUNCTIONS else as_dtype(str(x1.dtype))
    if not dtype.is_floating_point:
        raise UsageError(f"cosine_similarity: expected floating-point elements, got {dtype!r}")
    x1, x2 = FUNCTIONS["broadcast_tensors"](cast_to(x1, dtype), cast_to(x2, dtype))
    axis: Any = normalize_dim(dim, x1.ndim, "cosine_similarity")
    axis = axis if x1.ndim else ()

    def unit(x: Any) -> Any:
        norm = ops.stop_gradient(ops.sqrt(ops.sum(ops.square(x), axis=axis, keepdims=True)))
        square = ops.sum(ops.square(x), axis=axis, keepdims=True)
        inside = ops.less(norm, eps)
        safe = ops.where(inside, ops.ones_like(square), square)
        return x / ops.where(inside, eps, ops.sqrt(safe))

    return ops.sum(unit(x1) * unit(x2), axis=axis)


@tensor_function(method=False)
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of x1 - x2 + eps over the last dimension."""
    check_input(x1, "pairwise_distance")
    check_input(x2, "pairwise_distance")
    return FUNCTIONS["norm"](x1 - x2 + eps, p, -1, keepdim=keepdim)


@tensor_function(method=False)
def pdist(input: Any, p: float = 2.0) -> Any:
    """The p-norm distances between all pairs of rows of [rows, columns]: [rows (rows - 1) / 2]."""
    check_input(input, "pdist")
    if input.ndim != 2:
        raise ShapeError(f"pdist: expected [rows, columns], got {list(input.shape)}")
    pairs = [(i, j) for i in range(input.shape[0]) for j in range(i + 1, input.shape[0])]
    first = ops.static_gather(input, indices=tuple(i for i, _ in pairs), axis=0)
    second = ops.static_gather(input, indices=tuple(j for _, j in pairs), axis=0)
    return FUNCTIONS["norm"](first - second, p, -1)
