"""Functions of one value, element by element, and softmax."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import KnownArray, NetValue, Operand, net_dtype, positive_axis
from prototorch.interop.onnx.importer.registry import NoLayerError, imports
from prototorch.interop.onnx.importer.rows import row_fields
from prototorch.interop.onnx.op_pairs import pairs_by_op
from prototorch.interop.onnx.tensors import ELEMENT_TYPES

__all__: list[str] = []


@imports("Identity")
def _identity(b: NetBuilder, node: OnnxNode) -> Operand:
    return node.required(0)


@imports("HardSigmoid")
def _hard_sigmoid(b: NetBuilder, node: OnnxNode) -> Operand:
    if pairs_by_op()[node.op].fits(node.attributes):
        return b.add(layers.HardSigmoid(), node.value(0))
    scaled_input = b.add(
        b.make(layers.Rescaling, scale=node.get("alpha", 0.2), offset=node.get("beta", 0.5)), node.value(0)
    )
    return b.add(layers.Clip(min=0.0, max=1.0), scaled_input)


@imports("LRN")
def _lrn(b: NetBuilder, node: OnnxNode) -> Operand:
    return b.add(b.make(layers.LRN, **row_fields(pairs_by_op()[node.op], node)), node.batch_first(0))


@imports("Softmax", "LogSoftmax")
def _softmax(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    kind: Any = pairs_by_op()[node.op].layer
    if node.version >= 13:
        axis = x.axis(node.get("axis", -1))
        return b.add(kind(axis=-1 if axis == len(x.dims) else axis), x)
    # before opset 13: along all dimensions from the axis on, taken as one
    axis = positive_axis(node.get("axis", 1), x.ndim)
    if x.batch_axis is not None and x.batch_axis >= axis:
        raise NoLayerError("it works along the batch dimension, in which samples are independent")
    tail = [int(n) for n in x.shape[axis:]]
    if prod(tail) == tail[-1]:
        return b.add(kind(axis=-1), x)
    flat = b.reshape(x, [*x.shape[:axis], prod(tail)])
    return b.reshape(b.add(kind(axis=-1), flat), list(x.shape))


@imports("PRelu")
def _prelu(b: NetBuilder, node: OnnxNode) -> Operand:
    x, slope = node.value(0), node.weight(1, "slope")
    value, constant = b.aligned([x, slope], materialize=False)
    alpha = np.asarray(constant.array)
    if alpha.ndim > len(value.dims):
        raise NoLayerError(f"slopes of shape {list(slope.shape)} do not fit {list(value.dims)}")
    shared = [i + 1 for i, n in enumerate(alpha.shape) if n == 1 and value.dims[i] != 1]
    return b.add(layers.PReLU(shared_axes=shared or None), value, alpha=KnownArray(alpha, constant.name))


@imports("ThresholdedRelu")
def _thresholded_relu(b: NetBuilder, node: OnnxNode) -> Operand:
    return b.add(b.make(layers.ThresholdedReLU, theta=node.get("alpha", 1.0)), node.value(0))


@imports("Shrink")
def _shrink(b: NetBuilder, node: OnnxNode) -> Operand:
    threshold, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    if bias not in (0.0, threshold):
        raise NoLayerError(f"lambd {threshold} and bias {bias}: layers have a bias of 0 (HardShrink) or lambd")
    kind = layers.HardShrink if bias == 0.0 else layers.SoftShrink
    return b.add(b.make(kind, threshold=threshold), node.value(0))


@imports("Clip")
def _clip(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    low, high = (None if c is None else c.scalar() for c in _bounds(node))
    if node.version < 11:
        low, high = node.get("min"), node.get("max")
    info = np.finfo(x.dtype) if x.dtype.startswith("float") else np.iinfo(x.dtype)
    low = None if low is None or low <= float(info.min) else low
    high = None if high is None or high >= float(info.max) else high
    if x.dtype.startswith("float") and (low, high) == (0.0, 6.0):
        return b.add(layers.ReLU6(), x)
    if low is None and high is None:
        return x
    return b.add(b.make(layers.Clip, min=low, max=high), x)


def _bounds(node: OnnxNode) -> tuple[KnownArray | None, KnownArray | None]:
    return node.constant(1, "min"), node.constant(2, "max")


@imports("Dropout")
def _dropout(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    ratio = node.get("ratio", 0.5)
    if node.version >= 12:
        ratio_input, training = node.constant(1, "ratio"), node.constant(2, "training_mode")
        ratio = 0.5 if ratio_input is None else ratio_input.scalar()
        if training is not None and training.scalar() and ratio:
            raise NoLayerError("a dropout in training mode; export the model for inference")
    return b.add(b.make(layers.Dropout, rate=ratio), x) if 0 < ratio < 1 else x


@imports("Cast")
def _cast(b: NetBuilder, node: OnnxNode) -> Operand:
    if ELEMENT_TYPES.get(node.get("to"), "").startswith("float8"):
        raise NoLayerError("a conversion to floats of 8 bits has no layer")
    return cast(b, node.value(0), net_dtype(ELEMENT_TYPES.get(node.get("to"), f"type {node.get('to')}")))


@imports("CastLike")
def _cast_like(b: NetBuilder, node: OnnxNode) -> Operand:
    x, like = node.required(0), node.required(1)
    if like.dtype.startswith("float8"):
        raise NoLayerError("a conversion to floats of 8 bits has no layer")
    if isinstance(x, KnownArray):
        return x if x.array.dtype == object else replace(x, array=x.array.astype(like.dtype))
    return cast(b, x, net_dtype(like.dtype))


def cast(b: NetBuilder, x: NetValue, dtype: str) -> NetValue:
    """The value with other elements."""
    return x if x.dtype == dtype else b.add(b.make(layers.Cast, dtype=dtype), x)
