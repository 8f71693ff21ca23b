"""Einsum of one or two operands: transposes, sums and one matrix product."""

from __future__ import annotations

import string
from dataclasses import replace
from math import prod

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.importer.builder import MAX_CONSTANT_ELEMENTS, NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import Dim, KnownArray, NetValue, Operand
from prototorch.interop.onnx.importer.products import batched_matmul, dense
from prototorch.interop.onnx.importer.reductions import reduce_over
from prototorch.interop.onnx.importer.registry import NoLayerError, imports

__all__: list[str] = []


@imports("Einsum")
def _einsum(b: NetBuilder, node: OnnxNode) -> Operand:
    operands = [node.required(i) for i in range(len(node.inputs))]
    terms, output = _read_equation(node.get("equation", ""), [o.ndim for o in operands])
    sizes: dict[str, Dim] = {}
    for term, operand in zip(terms, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise NoLayerError(f"the index {letter} stands for dimensions of two sizes")
    if len(operands) == 1:
        x, term = _sum(b, operands[0], terms[0], set(output))
    elif len(operands) == 2:
        x, term = _product(b, operands, terms, output, sizes)
    else:
        raise NoLayerError("a product of more than two arrays; export it as products of two")
    if not isinstance(x, NetValue):
        raise NoLayerError("it reads constants alone, and is not computed here")
    order = [term.index(letter) for letter in output]
    return b.transpose(x, order) if order != list(range(len(order))) else x


def _read_equation(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """The indices of each operand and of the output, a letter each; those of an ellipsis get letters of their own."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise NoLayerError(f"the equation {equation[:60]!r} is of {len(terms)} arrays, not {len(ranks)}")
    free = [c for c in string.ascii_letters if c not in equation]
    widths = {rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term}
    if len(widths) > 1:
        raise NoLayerError(f"the ellipses of {equation[:60]!r} stand for different numbers of dimensions")
    width = widths.pop() if widths else 0
    if not 0 <= width <= len(free):
        raise NoLayerError(f"the equation {equation[:60]!r} does not fit its arrays")
    dots = "".join(free[:width])
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        output = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    terms, output = [t.replace("...", dots, 1) for t in terms], output.replace("...", dots, 1)
    named_letters = {c for term in terms for c in term if c in string.ascii_letters}
    for term, rank in zip([*terms, output], [*ranks, len(output)], strict=True):
        if len(term) != rank or not set(term) <= named_letters:
            raise NoLayerError(f"the equation {equation[:60]!r} does not fit its arrays")
        if len(set(term)) < rank:
            raise NoLayerError(f"the equation {equation[:60]!r} takes a diagonal, which no layer does")
    return terms, output


def _sum(b: NetBuilder, x: Operand, term: str, indices: set[str]) -> tuple[Operand, str]:
    """x summed over all but these indices."""
    axes = [i for i, letter in enumerate(term) if letter not in indices]
    left = "".join(letter for letter in term if letter in indices)
    if not axes:
        return x, term
    if isinstance(x, KnownArray):
        return KnownArray(x.array.sum(tuple(axes), dtype=x.array.dtype)), left
    return reduce_over(b, layers.ReduceSum, x, axes, False), left


def _arrange(b: NetBuilder, x: Operand, term: str, order: str, shape: list[Dim]) -> Operand:
    """x with its indices in an order, then in a shape."""
    axes = [term.index(letter) for letter in order]
    if isinstance(x, KnownArray):
        if 0 in x.array.strides and x.array.size > MAX_CONSTANT_ELEMENTS:  # repeated, a copy would take the memory
            raise NoLayerError(f"a constant of {x.array.size:,} repeated elements is not made")
        array = np.transpose(x.array, axes).reshape([int(n) for n in shape])
        return replace(x, array=array)
    return b.reshape(b.transpose(x, axes), shape)


def _product(
    b: NetBuilder, operands: list[Operand], terms: list[str], output: str, sizes: dict[str, Dim]
) -> tuple[NetValue, str]:
    """A product of two arrays and the order of its indices."""
    if isinstance(operands[0], KnownArray):
        operands, terms = operands[::-1], terms[::-1]
    left, first = _sum(b, operands[0], terms[0], set(output) | set(terms[1]))
    right, second = _sum(b, operands[1], terms[1], set(output) | set(terms[0]))
    both = [c for c in first if c in second]
    shared = "".join(c for c in both if c in output)
    inner = "".join(c for c in both if c not in output)
    rows = "".join(c for c in first if c not in both)
    columns = "".join(c for c in second if c not in both)

    def size(letters: str) -> int:
        return prod(int(sizes[c]) for c in letters)

    def dims(letters: str) -> list[Dim]:
        return [sizes[c] for c in letters]

    if isinstance(left, NetValue) and isinstance(right, KnownArray) and not shared:
        x = _arrange(b, left, first, rows + inner, [*dims(rows), size(inner)])
        kernel = _arrange(b, right, second, inner + columns, [size(inner), size(columns)])
        if not isinstance(x, NetValue) or not isinstance(kernel, KnownArray) or not kernel.array.size:
            raise NoLayerError("a product with an array without elements")
        return b.reshape(dense(b, x, kernel), dims(rows + columns)), rows + columns
    if isinstance(left, NetValue) and isinstance(right, KnownArray):  # the batch is among the rows: they stay in front
        x = _arrange(b, left, first, rows + shared + inner, [*dims(rows + shared), 1, size(inner)])
        y = _arrange(b, right, second, shared + inner + columns, [*dims(shared), size(inner), size(columns)])
        return b.reshape(batched_matmul(b, x, y), dims(rows + shared + columns)), rows + shared + columns
    x = _arrange(b, left, first, shared + rows + inner, [*dims(shared), size(rows), size(inner)])
    y = _arrange(b, right, second, shared + inner + columns, [*dims(shared), size(inner), size(columns)])
    z = batched_matmul(b, x, y)
    return b.reshape(z, dims(shared + rows + columns)), shared + rows + columns
