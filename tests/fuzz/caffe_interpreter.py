"""What Caffe computes for a net of inner products, convolutions, poolings and elementwise layers, forward, in NumPy.

It shares no code with the package: the net is a message of protobuf's own, and layers are the tests' own oracles. Where
Caffe stops (a CHECK of its sources), `RefusalError` is raised; a layer or field that is not known here raises
`NoReferenceError`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.caffe import oracles_elementwise as elementwise
from tests.caffe import oracles_shapes as shapes
from tests.caffe import oracles_windows as windows
from tests.fuzz.harness import NoReferenceError, RefusalError

__all__ = ["forward"]

Blobs = dict[str, np.ndarray]
Shape = tuple[int, ...]
Weights = Callable[[int, Shape], np.ndarray]  # blob k of a layer
MAX_ELEMENTS = 40_000  # of a blob: the oracles loop over single elements
FIELDS = {  # the fields of a layer's parameter that are known here
    "InnerProduct": {"num_output", "bias_term", "axis", "transpose", "weight_filler", "bias_filler"},
    "Convolution": {"num_output", "bias_term", "pad", "kernel_size", "stride", "dilation", "group", "weight_filler",
                    "bias_filler", "pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w"},
    "Pooling": {"pool", "pad", "kernel_size", "stride", "pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h",
                "stride_w", "global_pooling", "round_mode"},
    "ReLU": {"negative_slope"}, "ELU": {"alpha"}, "Power": {"power", "scale", "shift"}, "Sigmoid": set(),
    "TanH": set(), "AbsVal": set(), "BNLL": set(), "Threshold": {"threshold"}, "Softmax": {"axis"},
    "Concat": {"axis", "concat_dim"}, "Eltwise": {"operation", "coeff"}, "Flatten": {"axis", "end_axis"},
    "Dropout": {"dropout_ratio"}, "Input": {"shape"}, "Split": set(),
}  # fmt: skip
PARAMS = {"InnerProduct": "inner_product", "BNLL": "bnll", "AbsVal": "absval", "TanH": "tanh", "ReLU": "relu",
          "ELU": "elu"}  # fmt: skip


def _check(condition: Any, reason: str) -> None:
    if not condition:
        raise RefusalError(reason)


def _parameter(layer: Any) -> Any:
    name = f"{PARAMS.get(layer.type, layer.type.lower())}_param"
    parameter = getattr(layer, name, None)
    known_fields = FIELDS[layer.type]
    names = {field.name for field, _ in parameter.ListFields()} if parameter is not None else set()
    if names - known_fields:
        raise NoReferenceError(f"{layer.type}: {min(names - known_fields)}")
    others = {field.name for field, _ in layer.ListFields()} - {
        "name", "type", "bottom", "top", "param", name, "phase", "propagate_down", "loss_weight",
    }  # fmt: skip
    if others:
        raise NoReferenceError(f"{layer.type}: {min(others)}")
    return parameter


def _axis(axis: int, rank: int) -> int:
    _check(-rank <= axis < rank, f"axis {axis} out of range for {rank} axes")
    return axis % rank


def forward(
    net: Any, feeds: Callable[[str, Shape], np.ndarray], weights: Callable[[str, int, Shape], np.ndarray]
) -> Blobs:
    """The outputs of a net by name: the blobs that no layer reads.

    net: a NetParameter of protobuf's own. feeds: the elements of an input by its name and shape. weights: those of the
    k-th blob of a layer, by the layer's name, k and the blob's shape.
    """
    unknown = {field.name for field, _ in net.ListFields()} - {"name", "layer", "force_backward", "debug_info"}
    if unknown:
        raise NoReferenceError(min(unknown))
    blobs: Blobs = {}
    unread: dict[str, None] = {}
    names: set[str] = set()
    for layer in net.layer:
        if layer.type not in FIELDS:
            raise NoReferenceError(f"type {layer.type}")
        if layer.name in names:
            raise NoReferenceError("two layers of one name")
        names.add(layer.name)
        parameter = _parameter(layer)
        for bottom in layer.bottom:
            _check(bottom in unread or bottom in blobs, f"unknown bottom blob {bottom}")
        inputs = [blobs[name] for name in layer.bottom]
        for name in layer.bottom:
            unread.pop(name, None)
        if layer.type == "Input":
            outputs = _inputs(layer, parameter, feeds)
        else:
            outputs = _outputs(layer, parameter, inputs, partial(weights, layer.name))
        _check(len(outputs) == len(layer.top), f"{layer.name}: {len(layer.top)} tops")
        for index, (name, array) in enumerate(zip(layer.top, outputs, strict=True)):
            in_place = index < len(layer.bottom) and layer.bottom[index] == name
            _check(name not in blobs or in_place, f"top blob {name} is produced by several layers")
            if not 0 < array.size <= MAX_ELEMENTS:
                raise NoReferenceError("a large blob, or one without elements")
            blobs[name] = array
            unread[name] = None
    return {name: blobs[name] for name in unread}


def _inputs(layer: Any, parameter: Any, feeds: Callable[[str, Shape], np.ndarray]) -> list[np.ndarray]:
    _check(not layer.bottom, "an Input with bottoms")
    count = len(parameter.shape)
    _check(count in (0, 1, len(layer.top)), "as many shapes as tops")
    outputs = []
    for index, top in enumerate(layer.top):
        shape = tuple(parameter.shape[0 if count == 1 else index].dim) if count else ()
        _check(all(n >= 0 for n in shape), "a negative dim")
        if np.prod(shape, dtype=float) > MAX_ELEMENTS:
            raise NoReferenceError("a large input")
        outputs.append(feeds(top, shape))
    return outputs


def _outputs(layer: Any, p: Any, xs: list[np.ndarray], weights: Weights) -> list[np.ndarray]:
    kind = layer.type
    if kind not in ("Concat", "Eltwise", "Convolution"):
        _check(len(xs) == 1, f"{kind} takes one bottom")
    _check(xs, f"{kind} without bottoms")
    x = xs[0]
    zeros = np.zeros_like(x)
    if kind == "InnerProduct":
        return [_inner_product(p, x, weights)]
    if kind == "Convolution":
        return [_convolution(p, one, weights) for one in xs]
    if kind == "Pooling":
        return [_pooling(p, x)]
    if kind == "Concat":
        _check(not (p.HasField("axis") and p.HasField("concat_dim")), "axis and concat_dim")
        axis = _axis(p.concat_dim if p.HasField("concat_dim") else p.axis, x.ndim)
        rest = [one.shape[:axis] + one.shape[axis + 1 :] for one in xs]
        _check(all(one.ndim == x.ndim for one in xs) and len(set(rest)) == 1, "shapes of a Concat")
        return [np.concatenate(xs, axis)]
    if kind == "Eltwise":
        return [_eltwise(p, xs)]
    if kind == "Softmax":
        return [shapes.softmax(x, zeros, _axis(p.axis, x.ndim))[0]]
    if kind == "Flatten":
        start, end = _axis(p.axis, x.ndim), _axis(p.end_axis, x.ndim)
        _check(start <= end, "start_axis > end_axis")
        return [x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])]
    if kind == "Dropout":
        return [x]
    if kind == "Split":
        return [x] * len(layer.top)
    functions: dict[str, Callable[[], Any]] = {
        "ReLU": lambda: elementwise.relu(x, zeros, p.negative_slope),
        "ELU": lambda: elementwise.elu(x, zeros, p.alpha),
        "Sigmoid": lambda: elementwise.sigmoid(x, zeros),
        "TanH": lambda: elementwise.tanh(x, zeros),
        "AbsVal": lambda: elementwise.absval(x, zeros),
        "BNLL": lambda: elementwise.bnll(x, zeros),
        "Power": lambda: elementwise.power(x, zeros, p.power, p.scale, p.shift),
        "Threshold": lambda: elementwise.threshold(x, zeros, p.threshold),
    }
    return [functions[kind]()[0]]


def _inner_product(p: Any, x: np.ndarray, weights: Weights) -> np.ndarray:
    axis = _axis(p.axis, x.ndim)
    _check(p.num_output > 0, "num_output")
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    shape = (p.num_output, rows.shape[1])
    weight = weights(0, shape[::-1] if p.transpose else shape)
    y = rows @ (weight if p.transpose else weight.T)
    if p.bias_term:
        y = y + weights(1, (p.num_output,))
    return y.reshape(*x.shape[:axis], p.num_output)


def _sizes(p: Any, name: str, one: str, default: int | None, rank: int = 2) -> Shape:
    """The two sizes of a window: by rows and columns, or one or two repeated values."""
    h, w = f"{one}_h", f"{one}_w"
    values = list(getattr(p, name))
    if p.HasField(h) or p.HasField(w):
        _check(not values and rank == 2, f"{name} and {h}/{w}")
        return getattr(p, h), getattr(p, w)
    if not values and default is not None:
        return (default,) * rank
    _check(len(values) in (1, rank), f"{name} must be given once, or for each axis")
    return tuple(values * rank if len(values) == 1 else values)


def _convolution(p: Any, x: np.ndarray, weights: Weights) -> np.ndarray:
    if x.ndim != 4:
        raise NoReferenceError("a convolution of other axes")
    kernel = _sizes(p, "kernel_size", "kernel", None)
    stride = _sizes(p, "stride", "stride", 1)
    pad = _sizes(p, "pad", "pad", 0)
    dilation = tuple(p.dilation) or (1,)
    _check(len(dilation) in (1, 2), "dilation")
    dilation = dilation * 2 if len(dilation) == 1 else dilation
    _check(all(k > 0 for k in kernel) and all(s > 0 for s in stride) and p.num_output > 0, "sizes of a window")
    _check(p.group > 0 and x.shape[1] % p.group == 0 and p.num_output % p.group == 0, "groups")
    size = windows.conv_sizes(x.shape[2:], kernel, stride, pad, dilation)
    if any(d < 1 for d in dilation):
        raise NoReferenceError("a dilation of 0")
    if any(n < 1 for n in size) or np.prod(size) * np.prod(kernel) * x.shape[0] * x.shape[1] * p.num_output > 4e5:
        raise NoReferenceError("an output without elements, or too many products")
    weight = weights(0, (p.num_output, x.shape[1] // p.group, *kernel))
    bias = weights(1, (p.num_output,)) if p.bias_term else np.zeros(p.num_output)
    return windows.convolution(x, weight, bias, None, p.group, stride, pad, dilation)[0]


def _pooling(p: Any, x: np.ndarray) -> np.ndarray:
    _check(x.ndim == 4, "pooling of other axes")

    def size(name: str, default: int) -> tuple[int, int]:
        stem = name.removesuffix("_size")
        h, w = f"{stem}_h", f"{stem}_w"
        if p.HasField(h) or p.HasField(w):
            _check(p.HasField(h) and p.HasField(w) and not p.HasField(name), f"{name} and {h}/{w}")
            return getattr(p, h), getattr(p, w)
        return (getattr(p, name) if p.HasField(name) else default,) * 2

    if p.global_pooling:
        _check(not any(p.HasField(n) for n in ("kernel_size", "kernel_h", "kernel_w")), "global_pooling and a size")
        kernel = x.shape[2:]
    else:
        kernel = size("kernel_size", 0)
        _check(all(k > 0 for k in kernel), "a window without a size")
    stride, pad = size("stride", 1), size("pad", 0)
    if p.global_pooling:
        _check(stride == (1, 1) and pad == (0, 0), "global_pooling with a stride or padding")
    _check(all(s > 0 for s in stride), "a stride of 0")
    _check(all(a < b for a, b in zip(pad, kernel, strict=True)), "a padding as large as the window")
    kind = ("MAX", "AVE", "STOCHASTIC")[p.pool]
    _check(kind != "STOCHASTIC" or pad == (0, 0), "padding of a stochastic pooling")
    mode = ("CEIL", "FLOOR")[p.round_mode]
    out = windows.pooled_sizes(x.shape[2:], kernel, stride, pad, mode)
    if any(n < 1 for n in out) or any(k > n + 2 * q for k, n, q in zip(kernel, x.shape[2:], pad, strict=True)):
        raise NoReferenceError("a window larger than the image")
    return windows.pooling(x, None, kind, kernel, stride, pad, mode)[0]


def _eltwise(p: Any, xs: list[np.ndarray]) -> np.ndarray:
    kind = ("PROD", "SUM", "MAX")[p.operation]
    _check(len(xs) >= 2, "Eltwise of one bottom")
    _check(len(p.coeff) in (0, len(xs)), "one coefficient for each bottom")
    _check(kind != "PROD" or not p.coeff, "coefficients of a product")
    _check(len({x.shape for x in xs}) == 1, "shapes of an Eltwise")
    if kind == "SUM":
        return sum(c * x for c, x in zip(list(p.coeff) or [1.0] * len(xs), xs, strict=True))
    return np.prod(xs, axis=0) if kind == "PROD" else np.max(xs, axis=0)
