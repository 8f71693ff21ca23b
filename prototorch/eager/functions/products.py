"""PyTorch's products of vectors and matrices."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.functions.arithmetic import add, mul
from prototorch.eager.operands import accepts_out, cast_to
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError

__all__ = ["addmm", "baddbmm", "bmm", "dot", "matmul", "mm", "mv", "outer"]


def _check(name: str, *operands: Any, ndims: tuple[int, ...] = ()) -> None:
    """Tensors of one element type, of these numbers of dimensions. Raises UsageError or ShapeError."""
    for value in operands:
        if not hasattr(value, "interpreter"):
            raise UsageError(f"{name}: expected a tensor, got {type(value).__name__}")
    if any(v.dtype != operands[0].dtype for v in operands[1:]):
        types = {str(v.dtype) for v in operands}
        raise UsageError(f"{name}: expected tensors of one element type, got {' and '.join(sorted(types))}")
    for value, n in zip(operands, ndims, strict=False):
        if value.ndim != n:
            shapes = " and ".join(str(list(v.shape)) for v in operands)
            raise ShapeError(f"{name}: expected tensors of {' and '.join(map(str, ndims))} dimensions, got {shapes}")


def _product(name: str, a: Any, b: Any) -> Any:
    """The product of two stacks of matrices, of bool elements none."""
    if str(a.dtype) == "bool":
        raise UsageError(f"{name}: not defined for bool elements; cast them, for example by x.int()")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{name}: shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied: the inner sizes are "
            f"{a.shape[-1]} and {b.shape[-2]}"
        )
    return ops.matmul(a, b)


@tensor_function
@accepts_out
def matmul(input: Any, other: Any) -> Any:
    """The matrix product over the last two dimensions, leading ones broadcast; a vector is a row on the left and a
    column on the right, and its dimension is not in the result (torch.matmul)."""
    _check("matmul", input, other)
    if not input.ndim or not other.ndim:
        raise ShapeError(
            f"matmul: expected at least one dimension each, got shapes {list(input.shape)} and {list(other.shape)}"
        )
    a = ops.expand_dims(input, 0) if input.ndim == 1 else input
    b = ops.expand_dims(other, 1) if other.ndim == 1 else other
    y = _product("matmul", a, b)
    if input.ndim == 1:
        y = ops.squeeze(y, axis=y.ndim - 2)
    return ops.squeeze(y, axis=y.ndim - 1) if other.ndim == 1 else y


@tensor_function
@accepts_out
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices (torch.mm)."""
    _check("mm", input, mat2, ndims=(2, 2))
    return _product("mm", input, mat2)


@tensor_function
@accepts_out
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two stacks of matrices, [n, a, b] and [n, b, c] (torch.bmm)."""
    _check("bmm", input, mat2, ndims=(3, 3))
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: the stacks {list(input.shape)} and {list(mat2.shape)} differ in their first size")
    return _product("bmm", input, mat2)


@tensor_function
@accepts_out
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix and a vector (torch.mv)."""
    _check("mv", input, vec, ndims=(2, 1))
    return matmul(input, vec)


@tensor_function
@accepts_out
def dot(input: Any, tensor: Any) -> Any:
    """The sum of the products of two vectors of one size (torch.dot)."""
    _check("dot", input, tensor, ndims=(1, 1))
    if tuple(input.shape) != tuple(tensor.shape):
        raise ShapeError(f"dot: expected vectors of one size, got {input.shape[0]} and {tensor.shape[0]}")
    return matmul(input, tensor)


@tensor_function
@accepts_out
def vdot(input: Any, other: Any) -> Any:
    """As `dot`: there are no complex numbers (torch.vdot)."""
    return dot(input, other)


@tensor_function
@accepts_out
def inner(input: Any, other: Any) -> Any:
    """The sum of products over the last dimension of both (torch.inner)."""
    _check("inner", input, other)
    if not input.ndim or not other.ndim:
        return ops.multiply(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(f"inner: the last sizes of {list(input.shape)} and {list(other.shape)} differ")
    n = input.shape[-1]
    lead = tuple(input.shape[:-1])
    rows, columns = _rows(input, n), _rows(other, n)
    y = ops.matmul(rows, columns, transpose_b=True)
    return ops.reshape(y, shape=(*lead, *other.shape[:-1]))


def _rows(x: Any, n: int) -> Any:
    count = 1
    for size in x.shape[:-1]:
        count *= size
    return ops.reshape(x, shape=(count, n))


@tensor_function(aliases=("ger",))
@accepts_out
def outer(input: Any, vec2: Any) -> Any:
    """The products of each element of a vector with each of another (torch.outer)."""
    for value in (input, vec2):
        if getattr(value, "ndim", None) != 1:
            raise ShapeError(f"outer: expected two vectors, got a value of {getattr(value, 'ndim', 0)} dimensions")
    return mul(ops.expand_dims(input, 1), vec2)


def _combine(name: str, input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product; with beta 0 the input is not read."""
    is_float = str(product.dtype).startswith(("float", "bfloat"))
    for factor in (beta, alpha):
        if isinstance(factor, float) and not is_float:
            raise UsageError(f"{name}: beta and alpha must be integers for integers, got {factor}")
    _check(name, input, product)
    y = product if alpha == 1 else ops.multiply(product, cast_to(alpha, product.dtype, product, checked="alpha"))
    shape = tuple(product.shape)
    if input.ndim > len(shape) or any(
        a not in (1, b) for a, b in zip(reversed(tuple(input.shape)), reversed(shape), strict=False)
    ):
        raise ShapeError(f"{name}: input {list(input.shape)} does not broadcast to {list(shape)}")
    if beta == 0:
        return y
    x = input if beta == 1 else ops.multiply(input, cast_to(beta, input.dtype, input, checked="beta"))
    return ops.add(x, y)


@tensor_function(in_place=True)
@accepts_out
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2) (torch.addmm)."""
    return _combine("addmm", input, mm(mat1, mat2), beta, alpha)


@tensor_function(in_place=True)
@accepts_out
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat @ vec) (torch.addmv)."""
    return _combine("addmv", input, mv(mat, vec), beta, alpha)


@tensor_function(in_place=True)
@accepts_out
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * outer(vec1, vec2) (torch.addr)."""
    product = outer(vec1, vec2)
    if str(product.dtype) == str(input.dtype) == "bool":
        product = product if alpha else ops.logical_xor(product, product)
        return ops.logical_or(product, input) if beta else product
    product = product if alpha == 1 else mul(product, alpha)
    return product if beta == 0 else add(input if beta == 1 else mul(input, beta), product)


@tensor_function(in_place=True)
@accepts_out
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * bmm(batch1, batch2) (torch.baddbmm)."""
    return _combine("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@tensor_function(in_place=True)
@accepts_out
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * the sum of bmm(batch1, batch2) over the stack (torch.addbmm)."""
    return _combine("addbmm", input, ops.sum(bmm(batch1, batch2), axis=0), beta, alpha)


@tensor_function
@accepts_out
def kron(input: Any, other: Any) -> Any:
    """The Kronecker product: each element of input times all of other (torch.kron)."""
    n = max(input.ndim, other.ndim)
    a, b = ((1,) * (n - x.ndim) + tuple(x.shape) for x in (input, other))
    left = ops.reshape(input, shape=tuple(size for k in a for size in (k, 1)))
    right = ops.reshape(other, shape=tuple(size for k in b for size in (1, k)))
    return ops.reshape(mul(left, right), shape=tuple(i * j for i, j in zip(a, b, strict=True)))


@tensor_function(method=False)
def chain_matmul(*matrices: Any) -> Any:
    """The product of matrices from left to right (torch.chain_matmul)."""
    values = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], tuple | list) else matrices
    if not values:
        raise UsageError("chain_matmul: expected at least one matrix")
    y = values[0]
    for value in values[1:]:
        y = mm(y, value)
    return y
