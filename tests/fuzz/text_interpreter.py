"""What a model text of layers in a row computes in predictions, by PyTorch.

It shares no code with the package: a reader of flat fields of its own, and PyTorch's functions. A text with blocks,
branches, expressions or other layers raises `NoReferenceError`; one that cannot mean a net `RefusalError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.fuzz.harness import NoReferenceError, RefusalError

__all__ = ["predict"]

Shape = tuple[int, ...]
Weight = Callable[[str, Shape], np.ndarray]
_TOKEN = re.compile(
    r'\s+|#[^\n]*|(?P<text>"[^"\\]*")|(?P<number>-?[0-9.]+(?:e-?[0-9]+)?)(?![\w.])|(?P<word>\w+)|(?P<sign>[{}\[\]:,])'
)
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "linear": lambda x: x,
    "softmax": lambda x: torch.softmax(x, 1 if x.ndim > 2 else -1),
}  # fmt: skip
_TOP = ("name", "compile", "fit", "seed")
_FIELDS = {
    "Conv2D": {"filters", "kernel_size", "strides", "padding", "activation", "use_bias", "groups", "dilation_rate"},
    "MaxPooling2D": {"pool_size", "strides", "padding"}, "AveragePooling2D": {"pool_size", "strides", "padding"},
    "BatchNormalization": {"momentum", "epsilon", "center", "scale"}, "Flatten": set(), "Dropout": {"rate"},
    "Dense": {"units", "activation", "use_bias"}, "GlobalAveragePooling2D": set(), "ReLU": set(),
}  # fmt: skip


def _fields(text: str) -> list[tuple[str, Any]]:
    """The fields of a text in their order: (name, value), a block's value is such a list."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoReferenceError(f"a sign {text[at]!r}")
        if match.lastgroup:
            tokens.append((match.lastgroup, match[0]))
        at = match.end()
    fields, rest = _block(tokens, 0)
    if rest != len(tokens):
        raise RefusalError("a bracket that was not opened")
    return fields


def _block(tokens: list[tuple[str, str]], at: int) -> tuple[list[tuple[str, Any]], int]:
    fields: list[tuple[str, Any]] = []
    while at < len(tokens) and tokens[at] != ("sign", "}"):
        kind, name = tokens[at]
        if kind != "word" or at + 1 >= len(tokens):
            raise RefusalError(f"{name} is no name of a field")
        if tokens[at + 1][1] == "{":
            inner, at = _block(tokens, at + 2)
            if at >= len(tokens):
                raise RefusalError("a bracket that is not closed")
            fields.append((name, inner))
            at += 1
        elif tokens[at + 1][1] == ":":
            value, at = _value(tokens, at + 2)
            fields.append((name, value))
        else:
            raise RefusalError(f"{name} is followed by {tokens[at + 1][1]}")
    return fields, at


def _value(tokens: list[tuple[str, str]], at: int) -> tuple[Any, int]:
    if at >= len(tokens):
        raise RefusalError("a field without a value")
    kind, text = tokens[at]
    if text == "[":
        items = []
        at += 1
        while at < len(tokens) and tokens[at][1] != "]":
            item, at = _value(tokens, at)
            items.append(item)
            if at < len(tokens) and tokens[at][1] == ",":
                at += 1
        return items, at + 1
    if kind == "text":
        return text[1:-1], at + 1
    if kind == "number":
        return (float(text) if re.search(r"[.e]", text) else int(text)), at + 1
    if kind == "word" and at + 1 < len(tokens) and tokens[at + 1][1] == "{":
        inner, end = _block(tokens, at + 2)
        return inner, end + 1
    if kind == "word":
        return {"true": True, "false": False}.get(text, text), at + 1
    raise RefusalError(f"a value {text}")


class _Layer:
    """The fields of a layer, as the types that they must have."""

    def __init__(self, kind: str, fields: list[tuple[str, Any]]):
        self.kind, self.fields = kind, dict(fields)
        if len(self.fields) < len(fields):
            raise NoReferenceError("a field twice")
        unknown = self.fields.keys() - _FIELDS[kind] - {"name"}
        if unknown:
            raise NoReferenceError(f"{kind}.{min(unknown)}")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.fields.get(name, default)
        if type(value) is float and value == int(value):
            raise NoReferenceError("an integer with a point")
        if type(value) is not int or value < 1:
            raise RefusalError(f"{self.kind}.{name}: {value}")
        return value

    def pair(self, name: str, default: Any = None) -> tuple[int, int]:
        value = self.fields.get(name, default)
        values = value if isinstance(value, list) else [value, value]
        if len(values) != 2 or any(type(n) is not int or n < 1 for n in values):
            if any(type(n) is float for n in values) or len(values) == 1:
                raise NoReferenceError("an integer with a point, or a list of one")
            raise RefusalError(f"{self.kind}.{name}: {value}")
        return values[0], values[1]

    def flag(self, name: str, default: bool) -> bool:
        value = self.fields.get(name, default)
        if type(value) is not bool:
            raise RefusalError(f"{self.kind}.{name}: {value}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.fields.get(name, default)
        if type(value) not in (int, float):
            raise NoReferenceError(f"{name}: {value}") if value in ("nan", "inf") else RefusalError(f"{name}: {value}")
        return float(value)

    def activation(self, x: torch.Tensor) -> torch.Tensor:
        name = self.fields.get("activation", "linear")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise NoReferenceError(f"the activation {name}")
        return _ACTIVATIONS[name](x)


def predict(text: str, feed: Callable[[str, Shape], np.ndarray], weight: Weight) -> list[np.ndarray]:
    """The output for a batch. feed: the elements of the input by its name and shape without the batch. weight: of a
    weight by its name and shape."""
    fields = _fields(text)
    inputs = [value for name, value in fields if name == "input"]
    layers = [(name, value) for name, value in fields if name != "input" and name not in _TOP]
    if len(inputs) != 1 or not isinstance(inputs[0], list) or not layers:
        raise NoReferenceError("no input, or several; no layers")
    if any(name not in _FIELDS or not isinstance(value, list) for name, value in layers):
        raise NoReferenceError("another layer")
    declared = dict(inputs[0])
    if (
        len(declared) < len(inputs[0])
        or declared.keys() != {"name", "shape"}
        or not isinstance(declared["shape"], list)
    ):
        raise NoReferenceError("the input")
    shape = tuple(declared["shape"])
    if any(type(n) is not int or n < 1 for n in shape) or np.prod(shape, dtype=float) > 1e5:
        raise NoReferenceError("the shape of the input")
    x = torch.tensor(np.asarray(feed(str(declared["name"]), shape)), dtype=torch.float64)
    names = [dict(value).get("name") for _, value in layers]
    if None in names or len(set(names)) < len(names) or declared["name"] in names:
        raise NoReferenceError("names that are automatic, or twice")
    for kind, value in layers:
        x = _apply(_Layer(kind, value), x, weight)
    return [x.numpy()]


def _apply(layer: _Layer, x: torch.Tensor, weight: Weight) -> torch.Tensor:
    name, kind = str(layer.fields["name"]), layer.kind

    def get(what: str, *shape: int) -> torch.Tensor:
        if np.prod(shape, dtype=float) > 1e6:
            raise NoReferenceError("a large weight")
        return torch.tensor(np.asarray(weight(f"{name}/{what}", shape)), dtype=torch.float64)

    if kind in ("Conv2D", "MaxPooling2D", "AveragePooling2D", "GlobalAveragePooling2D") and x.ndim != 4:
        raise RefusalError(f"{kind} of {x.ndim} axes")
    if kind == "Conv2D":
        filters, groups = layer.count("filters"), layer.count("groups", 1)
        if x.shape[1] % groups or filters % groups:
            raise RefusalError("groups")
        kernel = layer.pair("kernel_size")
        w = get("kernel", filters, x.shape[1] // groups, *kernel)
        b = get("bias", filters) if layer.flag("use_bias", True) else None
        strides, dilation = layer.pair("strides", 1), layer.pair("dilation_rate", 1)
        x = _padded(layer, x, [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)], strides, 0.0)
        return layer.activation(F.conv2d(x, w, b, strides, 0, dilation, groups))
    if kind in ("MaxPooling2D", "AveragePooling2D"):
        size = layer.pair("pool_size", 2)
        strides = layer.pair("strides", list(size))
        if kind == "MaxPooling2D":
            return F.max_pool2d(_padded(layer, x, size, strides, -np.inf), size, strides)
        ones = _padded(layer, torch.ones_like(x), size, strides, 0.0)
        return F.avg_pool2d(_padded(layer, x, size, strides, 0.0), size, strides) / F.avg_pool2d(ones, size, strides)
    if kind == "GlobalAveragePooling2D":
        return x.mean((2, 3))
    if kind == "BatchNormalization":
        channels = x.shape[1]
        mean, variance = get("moving_mean", channels), get("moving_variance", channels)
        scale = get("gamma", channels) if layer.flag("scale", True) else None
        offset = get("beta", channels) if layer.flag("center", True) else None
        layer.number("momentum", 0.99)
        return F.batch_norm(x, mean, variance, scale, offset, False, 0.0, layer.number("epsilon", 1e-3))
    if kind == "Flatten":
        return x.flatten(1)
    if kind == "ReLU":
        return torch.relu(x)
    if kind == "Dropout":
        if not 0 <= layer.number("rate", -1) < 1:
            raise RefusalError("the rate of a Dropout")
        return x
    units = layer.count("units")
    y = x @ get("kernel", x.shape[-1], units)
    y = y + get("bias", units) if layer.flag("use_bias", True) else y
    if x.ndim > 2:
        raise NoReferenceError("a Dense of several axes")
    return layer.activation(y)


def _padded(layer: _Layer, x: torch.Tensor, reach: Any, strides: Any, value: float) -> torch.Tensor:
    """Padded as ``padding: same`` asks for, with more at the end; a window must fit."""
    padding = layer.fields.get("padding", "valid")
    if padding not in ("valid", "same"):
        raise NoReferenceError(f"padding: {padding}")
    if padding == "same":
        needs = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(x.shape[2:], strides, reach, strict=True)]
        if max(needs) > 100:
            raise NoReferenceError("a large window")
        x = F.pad(x, (needs[1] // 2, -(-needs[1] // 2), needs[0] // 2, -(-needs[0] // 2)), value=value)
    if any(k > n for k, n in zip(reach, x.shape[2:], strict=True)):
        raise RefusalError("a window larger than the image")
    return x
