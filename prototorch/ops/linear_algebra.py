"""Solutions of linear systems, inverses, determinants and Cholesky's decomposition, for stacks of matrices [..., n, n].

The reference implementations call the linear algebra extension of the array API: LAPACK for NumPy, cuSOLVER for CuPy.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import broadcast_shapes, cast, less
from prototorch.ops.indexing import iota
from prototorch.ops.linear import matmul
from prototorch.ops.reduce import sum_to
from prototorch.ops.shape import expand_dims, swap_axes
from prototorch.spec import Spec


def matrix_spec(op: Op, x: Spec) -> None:
    """Raises ShapeError for anything but a stack of float32 or float64 matrices."""
    if x.ndim < 2:
        raise op.shape_error(f"expected matrices [..., m, n], got shape {list(x.shape)}")
    if x.dtype not in ("float32", "float64"):
        raise op.shape_error(f"expected float32 or float64 elements, got {x.dtype}")


class MatrixOp(Op):
    """One stack of square float32 or float64 matrices."""

    def square_spec(self, x: Spec) -> None:
        """Raises ShapeError for anything else."""
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise self.shape_error(f"expected square matrices [..., n, n], got shape {list(x.shape)}")
        matrix_spec(self, x)

    def infer_spec(self, x: Spec, **attrs: Any) -> Any:
        self.square_spec(x)
        return Spec(x.shape, x.dtype)

    def flops(self, ins: Any, outs: Any, attrs: Any) -> int:
        return ins[0].size * ins[0].shape[-1] * 2


def transpose_matrix(x: Any) -> Any:
    """The last two axes exchanged."""
    return swap_axes(x, -2, -1)


class Inverse(MatrixOp):
    """The inverse of each matrix. Raises numpy.linalg.LinAlgError for a singular one."""

    @staticmethod
    def _by_x(g: Any, y: Any, x: Any) -> Any:
        return -matmul(matmul(y, g, transpose_a=True), y, transpose_b=True)

    derivatives = (_by_x,)

    def reference(self, xp: Any, x: Any) -> Any:
        return xp.linalg.inv(x)


class Solve(MatrixOp):
    """``solve(a, b)``: the x with a @ x = b. a [..., n, n], b [..., n, k]; leading axes broadcast. Raises
    numpy.linalg.LinAlgError for a singular matrix."""

    def infer_spec(self, a: Spec, b: Spec) -> Spec:
        self.square_spec(a)
        if b.ndim < 2 or b.shape[-2] != a.shape[-1] or b.dtype != a.dtype:
            raise self.shape_error(
                f"expected right-hand sides {a.dtype}[..., {a.shape[-1]}, k] for matrices {list(a.shape)}, got {b}"
            )
        return Spec((*broadcast_shapes(self, (a.shape[:-2], b.shape[:-2])), *b.shape[-2:]), a.dtype)

    @staticmethod
    def _by_b(g: Any, y: Any, a: Any, b: Any) -> Any:
        return sum_to(solve(transpose_matrix(a), g), b.shape)

    @staticmethod
    def _by_a(g: Any, y: Any, a: Any, b: Any) -> Any:
        return sum_to(-matmul(solve(transpose_matrix(a), g), y, transpose_b=True), a.shape)

    derivatives = (_by_a, _by_b)

    def reference(self, xp: Any, a: Any, b: Any) -> Any:
        return xp.linalg.solve(a, b)


class Cholesky(MatrixOp):
    """The lower triangular L with L @ L.T = x, of symmetric positive definite matrices; the lower triangle is read.
    Raises numpy.linalg.LinAlgError for a matrix that is not positive definite."""

    @staticmethod
    def _by_x(g: Any, y: Any, x: Any) -> Any:
        inner = matmul(y, g, transpose_a=True)
        inner = inner * triangle_mask(inner, 0.5)
        left = solve(transpose_matrix(y), inner)
        both = transpose_matrix(solve(transpose_matrix(y), transpose_matrix(left)))
        return (both + transpose_matrix(both)) * 0.5

    derivatives = (_by_x,)

    def reference(self, xp: Any, x: Any) -> Any:
        return xp.linalg.cholesky(x)


def triangle_mask(x: Any, diagonal: float) -> Any:
    """Ones below the diagonal of square matrices, a value on it, zeros above."""
    n = x.shape[-1]
    index = iota.apply_like(x, size=n)
    row, column = expand_dims(index, 1), expand_dims(index, 0)
    below = cast(less(column, row), dtype=x.dtype)
    return below + (1 - below - cast(less(row, column), dtype=x.dtype)) * diagonal


class Slogdet(MatrixOp):
    """The sign of the determinant of each matrix and the logarithm of its absolute value; the gradient is that of the
    logarithm."""

    def infer_spec(self, x: Spec) -> tuple[Spec, Spec]:
        self.square_spec(x)
        return Spec(x.shape[:-2], x.dtype), Spec(x.shape[:-2], x.dtype)

    def reference(self, xp: Any, x: Any) -> tuple[Any, Any]:
        result = xp.linalg.slogdet(x)
        return xp.asarray(result.sign), xp.asarray(result.logabsdet)

    def vjp(self, grads: Any, outputs: Any, inputs: Any, needs: Any, attrs: Any) -> Any:
        g = grads[1]
        if g is None:
            return [None]
        return [expand_dims(expand_dims(g, g.ndim), g.ndim + 1) * transpose_matrix(inverse(inputs[0]))]


inverse, solve, cholesky, slogdet = Inverse(), Solve(), Cholesky(), Slogdet()
