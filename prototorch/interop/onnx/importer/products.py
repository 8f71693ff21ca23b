"""Matrix products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import KnownArray, NetValue, Operand
from prototorch.interop.onnx.importer.registry import NoLayerError, imports

__all__: list[str] = []


def dense(b: NetBuilder, x: NetValue, kernel: KnownArray, bias: KnownArray | None = None) -> NetValue:
    """x times a constant matrix [n, units] along its last dimension, plus a bias."""
    x.axis(-1)  # not the batch
    layer = b.make(layers.Dense, units=kernel.shape[1], use_bias=bias is not None)
    return b.add(layer, x, kernel=kernel, bias=bias)


@imports("MatMul")
def _matmul(b: NetBuilder, node: OnnxNode) -> Operand:
    left, right = node.required(0), node.required(1)
    if isinstance(left, NetValue) and isinstance(right, KnownArray) and right.ndim <= 2:
        if left.ndim == 1 or right.ndim == 0:
            raise NoLayerError("a product of a vector without a batch dimension")
        if right.ndim == 1:
            return _without_last(b, dense(b, left, replace(right, array=right.array.reshape(-1, 1))))
        return dense(b, left, right)
    return batched_matmul(b, left, right)


def batched_matmul(b: NetBuilder, left: Operand, right: Operand) -> NetValue:
    """NumPy's matmul of two operands, one of them a value of the net."""
    drop: list[int] = []
    if left.ndim == 1:
        left, drop = _lift(b, left, 0), [*drop, -2]
    if right.ndim == 1:
        right, drop = _lift(b, right, 1), [*drop, -1]
    values = [v for v in (left, right) if isinstance(v, NetValue)]
    for v in values:
        if v.batch_axis is not None and v.batch_axis >= v.ndim - 2:
            return _matmul_along_batch(b, left, right)
    a, c = b.aligned([left, right])
    y = b.add(layers.MatMul(), a, c)
    for axis in drop:
        shape = list(y.shape)
        del shape[axis]
        y = b.reshape(y, shape)
    return y


def _matmul_along_batch(b: NetBuilder, left: Operand, right: Operand) -> NetValue:
    """[batch, n] @ [n, m] of two computed values, or a constant times one: the batch is no dimension of matrices."""
    if (
        isinstance(left, NetValue)
        and isinstance(right, KnownArray)
        and right.ndim == 2
        and left.batch_axis == left.ndim - 2
    ):
        return dense(b, left, right)
    if isinstance(left, NetValue) and left.batch_axis == left.ndim - 2 and isinstance(right, NetValue):
        raise NoLayerError("the samples of a batch share one computed matrix")
    raise NoLayerError("it sums over the batch dimension, in which samples are independent")


def _lift(b: NetBuilder, operand: Operand, axis: int) -> Operand:
    if isinstance(operand, KnownArray):
        return replace(operand, array=np.expand_dims(operand.array, axis))
    shape = list(operand.shape)
    shape.insert(axis, 1)
    return b.reshape(operand, shape)


def _without_last(b: NetBuilder, x: NetValue) -> NetValue:
    return b.reshape(x, list(x.shape[:-1]))


@imports("Gemm")
def _gemm(b: NetBuilder, node: OnnxNode) -> Operand:
    left, right, third = node.required(0), node.required(1), node.arg(2)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if isinstance(left, NetValue) and node.flag("transA", 0):
        left = b.transpose(left, [1, 0])
    elif isinstance(left, KnownArray) and node.flag("transA", 0):
        left = replace(left, array=left.array.T)
    if isinstance(right, KnownArray) and node.flag("transB", 0):
        right = replace(right, array=right.array.T)
    elif isinstance(right, NetValue) and node.flag("transB", 0):
        right = b.transpose(right, [1, 0])
    if isinstance(left, NetValue) and isinstance(right, KnownArray) and left.ndim == 2 == right.ndim:
        kernel = right if alpha == 1 else replace(right, array=(right.array * np.float32(alpha)))
        bias = _bias(third, kernel.shape[1], beta)
        y = dense(b, left, kernel, bias)
        return y if third is None or bias is not None or beta == 0 else _plus(b, y, third, beta)
    y = batched_matmul(b, left, right)
    y = y if alpha == 1 else b.add(b.make(layers.Rescaling, scale=alpha), y)
    return y if third is None or beta == 0 else _plus(b, y, third, beta)


def _bias(third: Operand | None, units: int, beta: float) -> KnownArray | None:
    if not isinstance(third, KnownArray) or beta == 0 or third.array.dtype == object:
        return None
    array: Any = third.array
    if array.size == 1:
        array = np.broadcast_to(array.reshape(-1), (units,))
    if array.size != units or array.shape[-1] != units:
        return None
    return replace(third, array=array.reshape(-1) if beta == 1 else array.reshape(-1) * np.float32(beta))


def _plus(b: NetBuilder, y: NetValue, third: Operand, beta: float) -> NetValue:
    if beta != 1:
        third = (
            replace(third, array=third.array * np.float32(beta))
            if isinstance(third, KnownArray)
            else b.add(b.make(layers.Rescaling, scale=beta), third)
        )
    return b.add(layers.Add(), *b.aligned([y, third]))
