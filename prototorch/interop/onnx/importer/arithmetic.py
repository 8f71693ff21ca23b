"""Ops of several values, element by element: sums, products, comparisons, choices."""

from __future__ import annotations

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import KnownArray, NetValue, Operand
from prototorch.interop.onnx.importer.registry import NoLayerError, imports
from prototorch.interop.onnx.importer.rows import import_merge

__all__: list[str] = []


def _single_number(operand: Operand, other: Operand) -> float | None:
    """The value of a constant of one element that does not add dimensions to the other operand."""
    if (
        isinstance(operand, KnownArray)
        and operand.array.dtype != object
        and operand.array.size == 1
        and (operand.ndim <= other.ndim)
    ):
        return operand.array.reshape(()).item()
    return None


@imports("Add", "Sub", "Mul", "Div")
def _arithmetic(b: NetBuilder, node: OnnxNode) -> Operand:
    left, right = node.required(0), node.required(1)
    if isinstance(left, NetValue) and left.dtype == "float32":
        number = _single_number(right, left)
        if number is not None:
            return _rescaled(b, left, node.op, number)
        if node.op == "Add" and isinstance(right, KnownArray) and (biased := _as_bias(b, node, 0, left, right)):
            return biased
    if isinstance(right, NetValue) and right.dtype == "float32":
        number = _single_number(left, right)
        if number is not None and node.op != "Div":
            return _rescaled(b, right, node.op, number, swapped=True)
        if node.op == "Add" and isinstance(left, KnownArray) and (biased := _as_bias(b, node, 1, right, left)):
            return biased
        if number == 1 and node.op == "Div":
            return b.add(layers.Reciprocal(), right)
    if node.op == "Div" and isinstance(left, NetValue | KnownArray) and left.dtype.startswith(("int", "uint")):
        raise NoLayerError("a division of integers has no layer")
    return import_merge(b, node)


def _rescaled(b: NetBuilder, x: NetValue, op: str, number: float, swapped: bool = False) -> Operand:
    scale, offset = {"Add": (1.0, number), "Sub": (1.0, -number), "Mul": (number, 0.0),
                     "Div": (1 / number if number else np.inf, 0.0)}[op]  # fmt: skip
    if swapped and op == "Sub":
        scale, offset = -1.0, number
    if (scale, offset) == (1.0, 0.0):
        return x
    return b.add(b.make(layers.Rescaling, scale=float(scale), offset=float(offset)), x)


def _as_bias(b: NetBuilder, node: OnnxNode, number: int, x: NetValue, constant: KnownArray) -> Operand | None:
    """The sum of the output of a layer without a bias and a constant for each of its channels, as that layer's bias."""
    producer = b.producer(x)
    if producer is None or not b.is_read_once(number) or getattr(producer.layer, "use_bias", True):
        return None
    if producer.layer.weights is not None or b.is_shared(producer.name):
        return None
    place, ndim = producer.layer.bias_axis, x.ndim
    if place is None or (place > 0 and not x.is_plain):
        return None
    axis, place = (place, place) if place > 0 else (len(x.dims), ndim - 1)
    shape = (*(1,) * (ndim - constant.ndim), *constant.shape)
    if len(shape) != ndim or (x.batch_axis == ndim - 1 and axis == len(x.dims)):
        return None
    if constant.array.size != shape[place] or shape[place] != x.dims[axis - 1]:
        return None
    b.replace_layer(producer.name, {"bias": KnownArray(constant.array.reshape(-1), constant.name)}, use_bias=True)
    return x


@imports("Pow")
def _power(b: NetBuilder, node: OnnxNode) -> Operand:
    base, exponent = node.required(0), node.required(1)
    if isinstance(base, NetValue) and base.dtype.startswith("float"):
        number = _single_number(exponent, base)
        if number is not None:
            return b.add(b.make(layers.Power, exponent=float(number)), base)
        if isinstance(exponent, KnownArray) and exponent.dtype != base.dtype:
            exponent = KnownArray(exponent.array.astype(base.dtype), exponent.name)
    elif isinstance(base, NetValue) or base.dtype.startswith(("int", "uint")):
        raise NoLayerError("a power of integers has no layer")
    return b.add(layers.Power(), *b.aligned([base, exponent]))


@imports("Mod")
def _mod(b: NetBuilder, node: OnnxNode) -> Operand:
    if node.flag("fmod", 0):
        raise NoLayerError("a remainder with the dividend's sign (fmod) has no layer")
    return b.add(layers.Mod(), *b.aligned([node.required(0), node.required(1)]))
