"""PyTorch's linear algebra: systems, determinants, decompositions of stacks of matrices [..., n, n]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.dtype import as_dtype
from prototorch.eager.functions.products import matmul
from prototorch.eager.functions.statistics import vector_norm
from prototorch.eager.operands import accepts_out, cast_to
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError

__all__ = ["cholesky", "det", "eigh", "eigvalsh", "inverse", "logdet", "matrix_norm", "matrix_power", "multi_dot",
           "norm",
           "slogdet", "solve"]  # fmt: skip


def run_on_matrices(name: str, op: Any, *matrices: Any) -> Any:
    """The result of an op on stacks of matrices. Raises UsageError for other values and for singular matrices."""
    for x in matrices:
        if not hasattr(x, "interpreter"):
            raise UsageError(f"{name}: expected a tensor, got {type(x).__name__}")
        if not as_dtype(str(x.dtype)).is_floating_point:
            raise UsageError(f"{name}: expected floating-point elements, got {x.dtype}")
    try:
        return op(*matrices)
    except np.linalg.LinAlgError as error:
        raise UsageError(f"{name}: {str(error).lower()}") from None


@tensor_function
@accepts_out
def inverse(input: Any) -> Any:
    """The inverse of each matrix (torch.linalg.inv). Raises UsageError for a singular one."""
    return run_on_matrices("inv", ops.inverse, input)


@tensor_function
@accepts_out
def det(input: Any) -> Any:
    """The determinant of each matrix (torch.linalg.det); its gradient needs an inverse."""
    sign, logarithm = run_on_matrices("det", ops.slogdet, input)
    return sign * ops.exp(logarithm)


@tensor_function
def slogdet(input: Any) -> tuple[Any, Any]:
    """The sign of the determinant of each matrix and the logarithm of its absolute value (torch.linalg.slogdet)."""
    return tuple(run_on_matrices("slogdet", ops.slogdet, input))


@tensor_function
def logdet(input: Any) -> Any:
    """The logarithm of the determinant of each matrix, NaN where it is negative (torch.logdet)."""
    sign, logarithm = slogdet(input)
    return logarithm + ops.where(ops.less(sign, ops.zeros_like(sign)), sign * float("nan"), sign * 0.0)


@tensor_function
@accepts_out
def cholesky(input: Any, upper: bool = False) -> Any:
    """The lower triangular L with L @ L.T = x of each symmetric positive definite matrix; with ``upper`` its transpose
    (torch.linalg.cholesky). Raises UsageError for a matrix that is not positive definite."""
    lower = run_on_matrices("cholesky", ops.cholesky, input)
    return ops.swap_axes(lower, -1, -2) if upper else lower


def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """The X with A @ X = B (``left=False``: X @ A = B); A [..., n, n], B [..., n, k], or a stack of vectors [..., n]
    (torch.linalg.solve). Raises UsageError for a singular matrix."""
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    if not left:
        if is_vector:
            raise UsageError("solve: left=False needs matrices on the right-hand side")
        return ops.swap_axes(solve(ops.swap_axes(A, -1, -2), ops.swap_axes(B, -1, -2)), -1, -2)
    right = ops.expand_dims(B, B.ndim) if is_vector else B
    y = run_on_matrices("solve", ops.solve, A, right)
    return ops.squeeze(y, axis=y.ndim - 1) if is_vector else y


def eigh(A: Any, UPLO: str = "L") -> tuple[Any, Any]:
    """Eigenvalues in ascending order and eigenvectors in columns of symmetric matrices, of which the lower triangle
    ("L") or the upper one ("U") is read (torch.linalg.eigh)."""
    if UPLO not in ("L", "U"):
        raise UsageError(f"eigh: UPLO must be 'L' or 'U', got {UPLO!r:.20}")
    return tuple(
        run_on_matrices("eigh", ops.eigh, A if UPLO == "L" else A + ops.stop_gradient(ops.swap_axes(A, -1, -2) - A))
    )


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of `eigh` (torch.linalg.eigvalsh)."""
    return eigh(A, UPLO)[0]


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A norm of each matrix: "fro", 1 and -1 (columns), inf and -inf (rows), "nuc", 2 and -2 by singular values
    (torch.linalg.matrix_norm)."""
    A = A if dtype is None else cast_to(A, as_dtype(dtype))
    row, column = dim
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim)
    row, column = row % A.ndim, column % A.ndim
    if row == column:
        raise ShapeError(f"matrix_norm: expected two dimensions, got {dim}")
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = (row, column) if abs(ord) == 1 else (column, row)
        sums = ops.sum(ops.abs(A), axis=inner, keepdims=True)
        y = _extreme(sums, ord > 0, outer, True)
    elif ord in (2, -2, "nuc"):
        y = _singular_norm(A, ord, row, column)
    else:
        raise UsageError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r:.40}")
    return y if keepdim else ops.sum(y, axis=(row, column))


def _extreme(x: Any, is_largest: bool, axis: int, keepdims: bool) -> Any:
    """The largest or smallest element along an axis; the largest of none, of numbers that are not negative, is 0."""
    if is_largest and x.shape[axis] == 0:
        return ops.sum(x, axis=axis, keepdims=keepdims)
    return (ops.max if is_largest else ops.min)(x, axis=axis, keepdims=keepdims)


def _singular_norm(A: Any, ord: Any, row: int, column: int) -> Any:
    order = (*(i for i in range(A.ndim) if i not in (row, column)), row, column)
    x = ops.transpose(A, order=order)
    values = run_on_matrices("matrix_norm", ops.svd, x)[1]
    axis = values.ndim - 1
    y = ops.sum(values, axis=axis) if ord == "nuc" else _extreme(values, ord == 2, axis, False)
    return ops.reshape(y, shape=tuple(1 if i in (row, column) else n for i, n in enumerate(A.shape)))


@tensor_function
def matrix_power(input: Any, n: int) -> Any:
    """The product of n times each matrix; n = 0 is the identity, a negative one a power of the inverse
    (torch.linalg.matrix_power)."""
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise ShapeError(f"matrix_power: expected square matrices, got shape {list(input.shape)}")
    base = inverse(input) if n < 0 else input
    result, count = None, abs(int(n))
    while count:
        if count & 1:
            result = base if result is None else ops.matmul(result, base)
        count >>= 1
        base = ops.matmul(base, base) if count else base
    if result is None:
        identity = input.interpreter.constant(np.eye(input.shape[-1], dtype=str(input.dtype)))
        return ops.broadcast_to(identity, shape=tuple(input.shape)) * 1
    return result


def multi_dot(tensors: Any) -> Any:
    """The product of matrices from left to right; the first and the last may be vectors (torch.linalg.multi_dot)."""
    values = list(tensors)
    if len(values) < 2:
        raise UsageError(f"multi_dot: expected at least 2 tensors, got {len(values)}")
    for k, v in enumerate(values):
        if v.ndim != 2 and not (v.ndim == 1 and k in (0, len(values) - 1)):
            raise ShapeError(f"multi_dot: expected matrices (vectors at the ends), got shape {list(v.shape)}")
    y = values[0]
    for v in values[1:]:
        y = matmul(y, v)
    return y


@tensor_function
@accepts_out
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The p-norm of the elements over dimensions (None: all): `linalg.vector_norm` of order ``p``; "fro" is 2
    (torch.norm). "nuc" is `linalg.matrix_norm`'s."""
    if isinstance(p, str):
        if p == "nuc":
            return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
        if p != "fro":
            raise UsageError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r:.40}")
        p = 2
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype)
