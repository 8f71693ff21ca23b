"""Linear algebra by PyTorch's names: ``pt.linalg.solve(A, B)``."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.contraction import cross as _cross
from prototorch.eager.functions.factorizations import (
    cond,
    matrix_rank,
    pinv,
    svdvals,
    tensorinv,
    tensorsolve,
    vander,
)
from prototorch.eager.functions.factorizations import linalg_norm as norm
from prototorch.eager.functions.factorizations import linalg_qr as qr
from prototorch.eager.functions.factorizations import linalg_svd as svd
from prototorch.eager.functions.matrices import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    matrix_norm,
    matrix_power,
    multi_dot,
    slogdet,
    solve,
)
from prototorch.eager.functions.matrices import inverse as inv
from prototorch.eager.functions.products import matmul
from prototorch.eager.functions.splitting import diagonal as _diagonal
from prototorch.eager.functions.statistics import vector_norm
from prototorch.eager.operands import promote
from prototorch.errors import UsageError, did_you_mean

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals",
    "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of 3 elements along a dimension; the others broadcast (torch.linalg.cross)."""
    a, b = promote("cross", input, other)
    if a.ndim != b.ndim:
        raise UsageError(f"cross: expected tensors of as many dimensions, got {list(a.shape)} and {list(b.shape)}")
    return _cross(a, b, dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of each matrix (torch.linalg.diagonal)."""
    return _diagonal(A, offset, dim1, dim2)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sum of products along a dimension; the others broadcast (torch.linalg.vecdot)."""
    a, b = promote("vecdot", x, y)
    product = ops.multiply(a, b)
    return ops.sum(product, axis=normalize_dim(dim, product.ndim, "vecdot"))


def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """The X with A @ X = B (``left=False``: X @ A = B) for triangular A, of which the other triangle is not read;
    ``unitriangular``: with ones on the diagonal (torch.linalg.solve_triangular)."""
    part = A.triu() if upper else A.tril()
    if unitriangular:
        part = (A.triu(1) if upper else A.tril(-1)) + (A * 0 + 1).triu().tril()
    return solve(part, B, left=left)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"prototorch.linalg has no function {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
