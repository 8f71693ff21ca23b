"""PyTorch's decompositions of matrices [..., m, n], and what is computed from them."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.matrices import matrix_norm, run_on_matrices
from prototorch.eager.functions.statistics import vector_norm
from prototorch.eager.operands import cast_to
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError

__all__ = ["cond", "linalg_norm", "linalg_svd", "matrix_rank", "pinverse", "qr", "svd", "svdvals"]

qr_result = namedtuple("qr_result", ("Q", "R"))
svd_result = namedtuple("svd_result", ("U", "S", "Vh"))
old_svd_result = namedtuple("old_svd_result", ("U", "S", "V"))


def _transpose(x: Any) -> Any:
    return ops.swap_axes(x, -1, -2)


def linalg_qr(A: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and the upper triangular R with Q @ R = A, a named tuple (torch.linalg.qr). Raises
    UsageError for another mode than "reduced"."""
    if mode != "reduced":
        raise UsageError(f"qr: mode must be 'reduced', got {mode!r:.20}")
    return qr_result(*run_on_matrices("qr", ops.qr, A))


@tensor_function
def qr(input: Any, some: bool = True) -> Any:
    """As `linalg.qr` (torch.qr). Raises UsageError for ``some=False``."""
    return linalg_qr(input, "reduced" if some else "complete")


def linalg_svd(A: Any, full_matrices: bool = True) -> Any:
    """U, the singular values in descending order, and the transposed V with U @ diag(S) @ Vh = A, a named tuple
    (torch.linalg.svd). Raises UsageError for ``full_matrices=True`` of matrices that are not square."""
    if full_matrices and A.ndim >= 2 and A.shape[-1] != A.shape[-2]:
        raise UsageError(f"svd: use full_matrices=False for matrices that are not square, got {list(A.shape)}")
    return svd_result(*run_on_matrices("svd", ops.svd, A))


@tensor_function
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """U, the singular values and V (not transposed), a named tuple (torch.svd). Raises UsageError for ``some=False`` of
    matrices that are not square, and for ``compute_uv=False``, for which `linalg.svdvals` is."""
    if not compute_uv or (not some and input.shape[-2:-1] != input.shape[-1:]):
        raise UsageError("svd: some=False and compute_uv=False are not possible; linalg.svdvals gives the values alone")
    u, s, vh = run_on_matrices("svd", ops.svd, input)
    return old_svd_result(u, s, _transpose(vh))


def svdvals(A: Any) -> Any:
    """The singular values in descending order (torch.linalg.svdvals)."""
    return run_on_matrices("svdvals", ops.svd, A)[1]


@tensor_function
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse; singular values up to ``rcond`` times the largest count as 0 (torch.pinverse)."""
    return pinv(input, rtol=rcond)


def pinv(
    A: Any, rcond: float | None = None, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Any:
    """The pseudo-inverse; singular values up to max(atol, rtol * largest) count as 0. rtol: default the larger size
    times the precision of the element type where there is no atol (torch.linalg.pinv)."""
    if hermitian:
        values, vectors = run_on_matrices("pinv", ops.eigh, ops.stop_gradient(A))
        size = ops.abs(values)
        largest = ops.max(size, axis=-1, keepdims=True) if A.shape[-1] else size
        counts = ops.greater(size, _tolerance(A, largest, atol, rcond if rtol is None else rtol))
        inverse = ops.where(counts, 1.0 / ops.where(counts, values, ops.ones_like(values)), values * 0.0)
        inverse_of_gram = ops.matmul(vectors * ops.expand_dims(inverse, values.ndim - 1), vectors, transpose_b=True)
        return ops.pseudo_inverse_of(A, inverse_of_gram)
    u, s, vh = run_on_matrices("pinv", ops.svd, ops.stop_gradient(A))
    if 0 in tuple(A.shape):
        return ops.broadcast_to(ops.zeros_like(A), shape=(*A.shape[:-2], A.shape[-1], A.shape[-2])).clone()
    counts = ops.greater(s, _tolerance(A, s, atol, rcond if rtol is None else rtol))
    inverse = ops.where(counts, 1.0 / ops.where(counts, s, ops.ones_like(s)), s * 0.0)
    inverse_of_gram = ops.matmul(_transpose(vh) * ops.expand_dims(inverse, s.ndim - 1), u, transpose_b=True)
    return ops.pseudo_inverse_of(A, inverse_of_gram)


def _lower_half(A: Any) -> Any:
    """The symmetric matrix of which A has the lower triangle."""
    half = (A + _transpose(A)) * 0.5
    return half + ops.stop_gradient(A.tril() + _transpose(A.tril(-1)) - half)


def _tolerance(A: Any, s: Any, atol: Any, rtol: Any) -> Any:
    precision = 2.0**-52 if str(A.dtype) == "float64" else 2.0**-23
    share = (max(A.shape[-2:]) * precision if atol is None else 0.0) if rtol is None else rtol
    share, least = (cast_to(v, s.dtype, s) for v in (share, 0.0 if atol is None else atol))
    largest = s[(..., slice(0, 1))]
    share, least = (ops.expand_dims(v, v.ndim) if v.ndim else v for v in (share, least))
    return ops.maximum(largest * share, least)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """The number of singular values above max(atol, rtol * largest), int64; see `pinv` (torch.linalg.matrix_rank)."""
    A = _lower_half(A) if hermitian else A
    s = run_on_matrices("matrix_rank", ops.svd, A)[1]
    if 0 in tuple(A.shape):
        return ops.sum(ops.cast(s, dtype="int64"), axis=s.ndim - 1)
    counts = ops.greater(s, _tolerance(A, s, tol if atol is None else atol, rtol))
    return ops.sum(ops.cast(counts, dtype="int64"), axis=s.ndim - 1)


def cond(A: Any, p: Any = None) -> Any:
    """The condition number by a norm: for None and 2 the largest over the smallest singular value
    (torch.linalg.cond)."""
    if A.ndim < 2:
        raise ShapeError(f"cond: expected matrices, got shape {list(A.shape)}")
    if p in (None, 2, -2):
        s = svdvals(A)
        first, last = ops.max(s, axis=s.ndim - 1), ops.min(s, axis=s.ndim - 1)
        return last / first if p == -2 else first / last
    inverse = run_on_matrices("cond", ops.inverse, A)
    return matrix_norm(A, p) * matrix_norm(inverse, p)


def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A vector norm for one dimension, a matrix norm for two, of all elements where neither ``ord`` nor ``dim`` is
    given (torch.linalg.norm)."""
    if dim is None and ord is None:
        return vector_norm(A, 2, None, keepdim, dtype)
    if dim is None and A.ndim not in (1, 2):
        raise ShapeError(f"norm: ord={ord} without dim needs one or two dimensions, got shape {list(A.shape)}")
    dims = (dim,) if isinstance(dim, int) else tuple(range(A.ndim)) if dim is None else tuple(dim)
    if isinstance(ord, str) and len(dims) != 2:
        raise UsageError(f"norm: ord={ord!r} needs two dimensions, got {list(dims)}")
    if len(dims) == 2 and ord is not None:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype)


def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of A as a map from its last dimensions to its first ``ind`` (torch.linalg.tensorinv)."""
    lead, rest = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if ind < 1 or math.prod(lead) != math.prod(rest):
        raise ShapeError(f"tensorinv: the products of {list(lead)} and {list(rest)} must be equal")
    n = math.prod(lead)
    return ops.reshape(run_on_matrices("tensorinv", ops.inverse, ops.reshape(A, shape=(n, n))), shape=(*rest, *lead))


def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """The X with tensordot(A, X, X.ndim) = B; ``dims``: dimensions of A that are moved to its end first
    (torch.linalg.tensorsolve)."""
    if dims is not None:
        moved = [normalize_dim(d, A.ndim, "tensorsolve") for d in dims]
        A = ops.transpose(A, order=(*(i for i in range(A.ndim) if i not in moved), *moved))
    rest, n = tuple(A.shape[B.ndim :]), B.spec.size
    if math.prod(rest) != n:
        raise ShapeError(f"tensorsolve: the sizes {list(rest)} of A do not fit B of shape {list(B.shape)}")
    flat = run_on_matrices("tensorsolve", ops.solve, ops.reshape(A, shape=(n, n)), ops.reshape(B, shape=(n, 1)))
    return ops.reshape(flat, shape=rest)


def vander(x: Any, N: int | None = None) -> Any:
    """The powers 0, 1, ..., N - 1 of each element in a new last dimension; N: default the last size
    (torch.linalg.vander)."""
    if (N is None and not x.ndim) or (N is not None and N <= 1):
        raise UsageError(f"vander: expected N > 1, or a dimension, got shape {list(x.shape)} and N={N}")
    x = x if str(x.dtype).startswith(("float", "bfloat")) else cast_to(x, "int64")
    count = x.shape[-1] if N is None else N
    x = x if x.ndim else ops.reshape(x, shape=(1,))
    columns = ops.broadcast_to(ops.expand_dims(x, x.ndim), shape=(*x.shape, max(count - 1, 0)))
    one = ops.broadcast_to(ops.ones_like(x), shape=(*x.shape, 1))
    return ops.cumprod(ops.concat(one, columns, axis=x.ndim), axis=x.ndim) if count else columns
