"""Operators on symbolic tensors: none is possible, and each error names the layers to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

from prototorch.errors import UsageError

__all__ = ["SymbolicOperators"]

_OWN_LAYER = "a layer of your own, whose call computes with operators and pt.ops (docs/extending.md)"


def _binary_operator(sign: str, layers: str, with_number: str | None = None, swap: bool = False):
    def method(self: Any, other: Any) -> NoReturn:
        hint = with_number if isinstance(other, int | float) and with_number is not None else layers
        left, right = (other, self) if swap else (self, other)
        raise UsageError(
            f"{left!r:.80} {sign} {right!r:.80}: operators are not possible on symbolic tensors; use {hint}"
        )

    return method


def _operator(what: str, layers: str):
    def method(self: Any, *args: Any) -> NoReturn:
        raise UsageError(f"{what} is not possible on a symbolic tensor, {self!r:.80}; use {layers}")

    return method


def _conversion(what: str, hint: str):
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise UsageError(
            f"{what}: {self!r:.80} is a symbolic tensor, stands for a value of the net and has no elements: {hint}"
        )

    return method


_ADD = ("pt.layers.Add()([a, b])", "pt.layers.Rescaling(1, offset=number)(x)")
_SUBTRACT = ("pt.layers.Subtract()([a, b])", "pt.layers.Rescaling(1, offset=-number)(x)")
_SUBTRACT_FROM = (_SUBTRACT[0], "pt.layers.Rescaling(-1, offset=number)(x)")
_MULTIPLY = ("pt.layers.Multiply()([a, b])", "pt.layers.Rescaling(number)(x)")
_DIVIDE = (_OWN_LAYER, "pt.layers.Rescaling(1 / number)(x)")
_POWER = (_OWN_LAYER, f"pt.layers.Multiply()([x, x]) for a square, or {_OWN_LAYER}")
_MATMUL = (f"pt.layers.Dot(axes)([a, b]), pt.layers.Dense for a matrix of weights, or {_OWN_LAYER}",)
_SLICE = f"pt.layers.Cropping1D or Cropping2D for a part of the steps or of an image, or {_OWN_LAYER}"
_RUN = "take model.predict(data), or model(data), for values"


class SymbolicOperators:
    """A mixin whose operators and conversions raise UsageError, with the layer to use."""

    __add__, __radd__ = _binary_operator("+", *_ADD), _binary_operator("+", *_ADD, swap=True)
    __sub__, __rsub__ = _binary_operator("-", *_SUBTRACT), _binary_operator("-", *_SUBTRACT_FROM, swap=True)
    __mul__, __rmul__ = _binary_operator("*", *_MULTIPLY), _binary_operator("*", *_MULTIPLY, swap=True)
    __truediv__, __rtruediv__ = _binary_operator("/", *_DIVIDE), _binary_operator("/", _OWN_LAYER, swap=True)
    __floordiv__, __rfloordiv__ = _binary_operator("//", _OWN_LAYER), _binary_operator("//", _OWN_LAYER, swap=True)
    __mod__, __rmod__ = _binary_operator("%", _OWN_LAYER), _binary_operator("%", _OWN_LAYER, swap=True)
    __pow__, __rpow__ = _binary_operator("**", *_POWER), _binary_operator("**", _OWN_LAYER, swap=True)
    __matmul__, __rmatmul__ = _binary_operator("@", *_MATMUL), _binary_operator("@", *_MATMUL, swap=True)
    __lt__, __le__ = _binary_operator("<", _OWN_LAYER), _binary_operator("<=", _OWN_LAYER)
    __gt__, __ge__ = _binary_operator(">", _OWN_LAYER), _binary_operator(">=", _OWN_LAYER)
    __neg__ = _operator("-x", "pt.layers.Rescaling(-1)(x)")
    __abs__ = _operator("abs(x)", _OWN_LAYER)
    __getitem__ = _operator("x[...]", _SLICE)
    __setitem__ = _operator("x[...] = value", _OWN_LAYER)
    __iter__ = _operator("iteration", _SLICE)
    __contains__ = _operator("in", "`any(x is y for y in symbols)` to find one of several symbolic tensors")
    __len__ = _conversion("len()", "its shape is known when the model is made, see model.summary()")
    __bool__ = _conversion("bool()", "compare with `is None`")
    __float__, __int__, __index__ = _conversion("float()", _RUN), _conversion("int()", _RUN), _conversion("int()", _RUN)
    __array__ = _conversion("a NumPy array", f"use layers instead of functions of arrays, or {_RUN}")
    __array_ufunc__ = __array_function__ = _conversion(
        "a NumPy function", f"use a layer, e.g. pt.layers.Activation(name)(x), or {_OWN_LAYER}"
    )
