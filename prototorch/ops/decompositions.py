"""Decompositions of stacks of matrices [..., m, n]: eigenvalues of symmetric ones, QR, singular values."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.linear import matmul
from prototorch.ops.linear_algebra import MatrixOp, matrix_spec, solve, transpose_matrix, triangle_mask
from prototorch.ops.shape import concat, expand_dims
from prototorch.spec import Spec


class Eigh(MatrixOp):
    """Eigenvalues in ascending order, and orthonormal eigenvectors in columns, of symmetric matrices; the lower
    triangle is read. The gradient by eigenvectors exists where the eigenvalues differ."""

    def infer_spec(self, x: Spec) -> tuple[Spec, Spec]:
        self.square_spec(x)
        return Spec(x.shape[:-1], x.dtype), Spec(x.shape, x.dtype)

    def reference(self, xp: Any, x: Any) -> tuple[Any, Any]:
        result = xp.linalg.eigh(x)
        return result.eigenvalues, result.eigenvectors

    def vjp(self, grads: Any, outputs: Any, inputs: Any, needs: Any, attrs: Any) -> Any:
        values, vectors = outputs
        inner = None
        if grads[1] is not None:
            identity = _identity(vectors)
            gaps = expand_dims(values, values.ndim - 1) - expand_dims(values, values.ndim)
            inner = matmul(vectors, grads[1], transpose_a=True) * ((1 - identity) / (gaps + identity))
        if grads[0] is not None:
            identity = _identity(vectors)
            diagonal = identity * expand_dims(grads[0], values.ndim)
            inner = diagonal if inner is None else inner + diagonal
        if inner is None:
            return [None]
        result = matmul(matmul(vectors, inner), vectors, transpose_b=True)
        return [(result + transpose_matrix(result)) * 0.5]  # as of a symmetric matrix, whatever the other triangle has


def _identity(x: Any) -> Any:
    return triangle_mask(x, 1.0) - triangle_mask(x, 0.0)


class Qr(Op):
    """The reduced QR decomposition: Q [..., m, k] with orthonormal columns and the upper triangular R [..., k, n],
    k = min(m, n). The gradient exists for full rank."""

    def infer_spec(self, x: Spec) -> tuple[Spec, Spec]:
        matrix_spec(self, x)
        m, n = x.shape[-2:]
        k, lead = min(m, n), x.shape[:-2]
        return Spec((*lead, m, k), x.dtype), Spec((*lead, k, n), x.dtype)

    def reference(self, xp: Any, x: Any) -> tuple[Any, Any]:
        result = xp.linalg.qr(x)
        return result.Q, result.R

    def vjp(self, grads: Any, outputs: Any, inputs: Any, needs: Any, attrs: Any) -> Any:
        (q, r), (by_q, by_r) = outputs, grads
        m, n = inputs[0].shape[-2:]
        if m < n:  # the square on the left is decomposed, the columns on the right are multiplied by Q.T
            rest = None
            if by_r is not None:
                rest, by_r = by_r[(..., slice(m, n))], by_r[(..., slice(0, m))]
                more = matmul(inputs[0][(..., slice(m, n))], rest, transpose_b=True)
                by_q = more if by_q is None else by_q + more
            left = self._square_grad(q, r[(..., slice(0, m))], by_q, by_r)
            right = matmul(q, rest) if rest is not None else inputs[0][(..., slice(m, n))] * 0.0
            return [concat(left, right, axis=left.ndim - 1)]
        return [self._square_grad(q, r, by_q, by_r)]

    @staticmethod
    def _square_grad(q: Any, r: Any, by_q: Any, by_r: Any) -> Any:
        """The gradient for m >= n."""
        inner = None if by_r is None else matmul(r, by_r, transpose_b=True)
        if by_q is not None:
            part = -matmul(by_q, q, transpose_a=True)
            inner = part if inner is None else inner + part
        if inner is None:
            return None
        lower = inner * triangle_mask(inner, 1.0)
        symmetric = lower + transpose_matrix(inner * triangle_mask(inner, 0.0))
        right = matmul(q, symmetric)
        right = right if by_q is None else right + by_q
        return transpose_matrix(solve(r, transpose_matrix(right)))


class Svd(Op):
    """The reduced singular value decomposition: U [..., m, k], S [..., k] in descending order, V.T [..., k, n],
    k = min(m, n). The gradient exists where the singular values differ and are not 0."""

    def infer_spec(self, x: Spec) -> tuple[Spec, Spec, Spec]:
        matrix_spec(self, x)
        m, n = x.shape[-2:]
        k, lead = min(m, n), x.shape[:-2]
        return Spec((*lead, m, k), x.dtype), Spec((*lead, k), x.dtype), Spec((*lead, k, n), x.dtype)

    def reference(self, xp: Any, x: Any) -> tuple[Any, Any, Any]:
        result = xp.linalg.svd(x, full_matrices=False)
        return result.U, result.S, result.Vh

    def vjp(self, grads: Any, outputs: Any, inputs: Any, needs: Any, attrs: Any) -> Any:
        (u, s, vh), (by_u, by_s, by_vh) = outputs, grads
        row, column = expand_dims(s, s.ndim - 1), expand_dims(s, s.ndim)
        square = column * row
        identity = _identity(square)
        gaps = row * row - column * column + identity
        total = None if by_s is None else identity * expand_dims(by_s, s.ndim - 1)
        if by_u is not None:
            skew = matmul(u, by_u, transpose_a=True)
            part = (skew - transpose_matrix(skew)) * (1 - identity) / gaps * row
            total = part if total is None else total + part
        if by_vh is not None:
            skew = matmul(vh, by_vh, transpose_b=True)
            part = column * ((skew - transpose_matrix(skew)) * (1 - identity) / gaps)
            total = part if total is None else total + part
        if total is None:
            return [None]
        result = matmul(matmul(u, total), vh)
        m, n = inputs[0].shape[-2:]
        if by_u is not None and m > n:
            rest = by_u - matmul(u, matmul(u, by_u, transpose_a=True))
            result = result + matmul(rest / row, vh)
        if by_vh is not None and n > m:
            rest = by_vh - matmul(matmul(by_vh, vh, transpose_b=True), vh)
            result = result + matmul(u, rest / column)
        return [result]


class PseudoInverseOf(Op):
    """``pseudo_inverse_of(x, p)``: p, the pseudo-inverse of x, as a function of x, whose gradient exists where the rank
    does not change (Golub and Pereyra, 1973)."""

    @staticmethod
    def _by_x(g: Any, y: Any, x: Any, p: Any) -> Any:
        transposed = transpose_matrix(g)
        first = matmul(matmul(y, g, transpose_a=True), y, transpose_b=True)
        left = transposed - matmul(x, matmul(y, transposed))
        right = transposed - matmul(matmul(transposed, y), x)
        second = matmul(matmul(left, y), y, transpose_b=True)
        third = matmul(y, matmul(y, right), transpose_a=True)
        return second + third - first

    derivatives = (_by_x, None)

    def infer_spec(self, x: Spec, p: Spec) -> Spec:
        matrix_spec(self, x)
        if p != Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype):
            raise self.shape_error(f"expected the pseudo-inverse of {x}, got {p}")
        return p

    def reference(self, xp: Any, x: Any, p: Any) -> Any:
        return xp.asarray(p, copy=True)


eigh, qr, svd, pseudo_inverse_of = Eigh(), Qr(), Svd(), PseudoInverseOf()
