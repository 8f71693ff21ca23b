"""Sums of products over named dimensions: `einsum`, `tensordot`, `cdist`, `cross`."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.eager.dims import normalize_dim
from prototorch.eager.functions.reductions import sum
from prototorch.eager.functions.statistics import vector_norm
from prototorch.eager.operands import accepts_out, promote
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError

__all__ = ["cdist", "cross", "einsum", "tensordot"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@tensor_function(method=False)
def einsum(equation: Any, *operands: Any) -> Any:
    """The sum of products by Einstein's convention: ``einsum("bij,bjk->bik", a, b)`` (torch.einsum).

    A letter names a dimension; one that is missing on the right is summed over; without ``->`` the result has the
    letters that occur once, in alphabetical order. ``...`` stands for further dimensions, which broadcast. Also
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])``. Operands are multiplied from left to right.

    Raises UsageError for an equation that does not fit the operands, ShapeError for sizes that differ.
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    values = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], tuple | list) else list(operands)
    inputs, output = _parse(equation, values)
    terms = [_diagonal(v, names) for v, names in zip(values, inputs, strict=True)]
    value, names = terms[0]
    for k, (other, other_names) in enumerate(terms[1:], start=1):
        needed = set(output).union(*(n for _, n in terms[k + 1 :]))
        value, names = _contract(value, names, other, other_names, needed)
    extra = tuple(i for i, c in enumerate(names) if c not in output)
    value = sum(value, extra) if extra else value
    names = [c for c in names if c in output]
    return ops.transpose(value, order=tuple(names.index(c) for c in output)) if len(names) > 1 else value


def _from_lists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The form of operands and lists of numbers as an equation."""
    values, lists = args[: len(args) // 2 * 2 : 2], args[1::2]

    def term(numbers: Any) -> str:
        for n in numbers:
            if n is not Ellipsis and not (isinstance(n, int) and 0 <= n < 52):
                raise UsageError(f"einsum: a dimension is a number in [0, 52) or ..., got {n!r:.40}")
        return "".join("..." if n is Ellipsis else _LETTERS[n] for n in numbers)

    equation = ",".join(map(term, lists))
    return (f"{equation}->{term(args[-1])}" if len(args) % 2 else equation), values


def _parse(equation: str, values: list[Any]) -> tuple[list[list[str]], list[str]]:
    """The names of the dimensions of each operand and of the result; those of ``...`` are numbers from the end."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(values):
        raise UsageError(f"einsum: {equation!r:.80} has {len(parts)} operands, got {len(values)}")
    inputs = [_names(part, v.ndim, equation) for part, v in zip(parts, values, strict=True)]
    flat = [c for names in inputs for c in names]
    wide = sorted({c for c in flat if c.isdigit()}, key=int, reverse=True)
    if arrow:
        head, dots, tail = right.partition("...")
        output = [*head, *(wide if dots else ()), *tail]
    else:
        output = [*wide, *sorted(c for c in set(flat) if not c.isdigit() and flat.count(c) == 1)]
    for c in output:
        if c not in flat or output.count(c) > 1:
            raise UsageError(f"einsum: {c!r} of the result of {equation!r:.80} must be a dimension of an operand, once")
    sizes: dict[str, int] = {}
    for names, v in zip(inputs, values, strict=True):
        for c, n in zip(names, tuple(v.shape), strict=True):
            if n != 1 and sizes.setdefault(c, n) != n:
                raise ShapeError(f"einsum: the dimension {c!r} of {equation!r:.80} has the sizes {sizes[c]} and {n}")
    return inputs, output


def _names(part: str, ndim: int, equation: str) -> list[str]:
    head, dots, tail = part.partition("...")
    if not all(c in _LETTERS for c in head + tail):
        raise UsageError(f"einsum: dimensions are named by letters, got {part!r:.40} in {equation!r:.80}")
    extra = ndim - len(head) - len(tail)
    if extra < 0 or (extra and not dots):
        raise UsageError(f"einsum: {part!r:.40} names {len(head + tail)} dimensions of an operand of {ndim}")
    return [*head, *(str(i) for i in range(extra - 1, -1, -1)), *tail]


def _diagonal(value: Any, names: list[str]) -> tuple[Any, list[str]]:
    """An operand without names that occur twice: the diagonal of their dimensions."""
    names = list(names)
    for c in [c for c in dict.fromkeys(names) if names.count(c) > 1]:
        while names.count(c) > 1:
            first = names.index(c)
            second = names.index(c, first + 1)
            n, m = value.shape[first], value.shape[second]
            if n != m:
                raise ShapeError(f"einsum: the dimension {c!r} occurs twice, with the sizes {n} and {m}")
            order = (*(i for i in range(value.ndim) if i not in (first, second)), first, second)
            lead = tuple(value.shape[i] for i in order[:-2])
            flat = ops.reshape(ops.transpose(value, order=order), shape=(*lead, n * n))
            value = flat[(..., slice(0, n * n, n + 1))]
            names = [*(names[i] for i in order[:-2]), c]
    return value, names


def _contract(a: Any, a_names: list[str], b: Any, b_names: list[str], needed: set[str]) -> tuple[Any, list[str]]:
    """The product of two operands, summed over dimensions that nothing else needs: one product of matrices."""
    a, a_names = _sum_alone(a, a_names, {*b_names, *needed})
    b, b_names = _sum_alone(b, b_names, {*a_names, *needed})
    a, b = promote("einsum", a, b) if a.dtype != b.dtype else (a, b)
    sizes = {c: n for names, v in ((a_names, a), (b_names, b)) for c, n in zip(names, v.shape, strict=True) if n != 1}
    for names, v in ((a_names, a), (b_names, b)):
        for c, n in zip(names, tuple(v.shape), strict=True):
            sizes.setdefault(c, n)
    shared = [c for c in a_names if c in b_names]
    batch, inner = [c for c in shared if c in needed], [c for c in shared if c not in needed]
    rows, columns = [c for c in a_names if c not in shared], [c for c in b_names if c not in shared]
    left = _arrange(a, a_names, (batch, rows, inner), sizes)
    right = _arrange(b, b_names, (batch, inner, columns), sizes)
    names = [*batch, *rows, *columns]
    return ops.reshape(ops.matmul(left, right), shape=tuple(sizes[c] for c in names)), names


def _sum_alone(value: Any, names: list[str], others: set[str]) -> tuple[Any, list[str]]:
    """An operand without the dimensions that no other needs; sums of integers are int64, those of one element stay."""
    alone = [i for i, c in enumerate(names) if c not in others]
    wide = tuple(i for i in alone if value.shape[i] != 1)
    value = sum(value, wide, keepdim=True) if wide else value
    kept_shape = tuple(n for i, n in enumerate(value.shape) if i not in alone)
    return (ops.reshape(value, shape=kept_shape) if alone else value), [c for c in names if c in others]


def _arrange(value: Any, names: list[str], groups: tuple[list[str], ...], sizes: dict[str, int]) -> Any:
    order = [c for group in groups for c in group]
    value = ops.transpose(value, order=tuple(names.index(c) for c in order)) if value.ndim > 1 else value
    wide = tuple(sizes[c] for c in order)
    value = value if tuple(value.shape) == wide else ops.broadcast_to(value, shape=wide)
    return ops.reshape(value, shape=tuple(prod(sizes[c] for c in group) for group in groups))


@tensor_function(method=False)
@accepts_out
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """The sum of products over dimensions: the last ``dims`` of a with the first of b, or two lists of dimensions
    (torch.tensordot)."""
    if isinstance(dims, int) or getattr(dims, "ndim", None) == 0:
        n = int(dims)
        if not 0 <= n <= min(a.ndim, b.ndim):
            raise UsageError(f"tensordot: dims must be between 0 and {min(a.ndim, b.ndim)}, got {n}")
        of_a, of_b = list(range(a.ndim - n, a.ndim)), list(range(n))
    else:
        pair = dims.tolist() if hasattr(dims, "tolist") else dims
        of_a, of_b = ([d] if isinstance(d, int) else list(d) for d in pair)
    if len(of_a) != len(of_b):
        raise UsageError(f"tensordot: expected as many dimensions of both, got {of_a} and {of_b}")
    of_a = [normalize_dim(d, a.ndim, "tensordot") for d in of_a]
    of_b = [normalize_dim(d, b.ndim, "tensordot") for d in of_b]
    a_names = [_LETTERS[i] for i in range(a.ndim)]
    b_names = [_LETTERS[a.ndim + i] for i in range(b.ndim)]
    for i, j in zip(of_a, of_b, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(f"tensordot: the sizes {a.shape[i]} and {b.shape[j]} of dimensions {i} and {j} differ")
        b_names[j] = a_names[i]
    result = [c for i, c in enumerate(a_names) if i not in of_a] + [c for j, c in enumerate(b_names) if j not in of_b]
    return einsum(f"{''.join(a_names)},{''.join(b_names)}->{''.join(result)}", a, b)


@tensor_function
@accepts_out
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The cross product of vectors of 3 elements along ``dim`` (default: the first one of size 3); torch.cross."""
    a, b = promote("cross", input, other)
    if a.ndim != b.ndim:
        raise ShapeError(f"cross: expected tensors of as many dimensions, got {list(a.shape)} and {list(b.shape)}")
    if dim is None:
        dim = next((i for i, n in enumerate(a.shape) if n == 3), None)
        if dim is None:
            raise ShapeError(f"cross: no dimension of {list(a.shape)} has 3 elements")
    axis = normalize_dim(dim, a.ndim, "cross")
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ShapeError(f"cross: dimension {axis} must have 3 elements, got {list(a.shape)} and {list(b.shape)}")

    def part(x: Any, i: int) -> Any:
        return x[(slice(None),) * axis + (slice(i, i + 1),)]

    parts = [
        part(a, (i + 1) % 3) * part(b, (i + 2) % 3) - part(a, (i + 2) % 3) * part(b, (i + 1) % 3) for i in range(3)
    ]
    return ops.concat(*parts, axis=axis)


@tensor_function(method=False)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """The p-norms of the differences of each row of x1 [..., n, d] with each of x2 [..., m, d]: [..., n, m]
    (torch.cdist). ``compute_mode`` is accepted; all distances are computed from differences."""
    _ = compute_mode
    a, b = promote("cdist", x1, x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist: expected [..., n, d] and [..., m, d], got {list(a.shape)} and {list(b.shape)}")
    if p < 0:
        raise UsageError(f"cdist: p must not be negative, got {p}")
    gap = ops.subtract(ops.expand_dims(a, a.ndim - 1), ops.expand_dims(b, b.ndim - 2))
    if gap.shape[-1] == 0:
        return ops.sum(gap, axis=gap.ndim - 1)
    return vector_norm(gap, p, -1)
