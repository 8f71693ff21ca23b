"""Python's operators on tensors, in terms of PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.operands import promote
from prototorch.eager.registry import FUNCTIONS, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.graph.symbolic_functions import SYMBOLIC_FUNCTIONS
from prototorch.ops.lazy_array import LazyArray

__all__: list[str] = []

#: operator -> function; each also with exchanged operands and in place
_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
               "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
               "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}  # fmt: skip
_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_OPERANDS = (Tensor, bool, int, float, np.ndarray, np.generic, LazyArray)


def _is_operand(value: Any) -> bool:
    return isinstance(value, _OPERANDS) or getattr(value, "interpreter", None) is not None


#: operators that are one op on floating-point elements: the short way of the function
_DIRECT = {"add": ops.add, "sub": ops.subtract, "mul": ops.multiply, "eq": ops.equal, "ne": ops.not_equal,
           "lt": ops.less, "le": ops.less_equal, "gt": ops.greater, "ge": ops.greater_equal}  # fmt: skip


#: half-precision elements and a number may need float32 (see `functions.arithmetic`)
_FULL_PRECISION = ("float32", "float64")


def _operator(name: str, swap: bool = False) -> Callable[[Any, Any], Any]:
    op = _DIRECT.get(name)

    def method(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind is Tensor or kind is float or kind is int:
            if op is not None and self.spec.dtype in _FULL_PRECISION:
                a, b = promote(name, self, other)
                if a.spec.is_float:
                    return op(b, a) if swap else op(a, b)
            function = SYMBOLIC_FUNCTIONS[name]  # neither is a symbol
            return function(other, self) if swap else function(self, other)
        if not _is_operand(other):
            return NotImplemented
        other = np.asarray(other) if isinstance(other, LazyArray) else other  # a table of a layer's
        return FUNCTIONS[name](other, self) if swap else FUNCTIONS[name](self, other)

    return method


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return getattr(self, f"{name}_")(other) if _is_operand(other) else NotImplemented

    return method


for _sign, _name in _ARITHMETIC.items():
    tensor_method(_operator(_name), name=f"__{_sign}__")
    tensor_method(_operator(_name, True), name=f"__r{_sign}__")
    tensor_method(_in_place(_name), name=f"__i{_sign}__")
for _sign, _name in _COMPARISONS.items():
    tensor_method(_operator(_name), name=f"__{_sign}__")


@tensor_method(name="__neg__")
def _neg(self: Any) -> Any:
    return FUNCTIONS["neg"](self)


@tensor_method(name="__pos__")
def _pos(self: Any) -> Any:
    return FUNCTIONS["positive"](self)


@tensor_method(name="__abs__")
def _abs(self: Any) -> Any:
    return FUNCTIONS["abs"](self)


@tensor_method(name="__invert__")
def _invert(self: Any) -> Any:
    return FUNCTIONS["bitwise_not"](self)


@tensor_method(name="__matmul__")
def _matmul(self: Any, other: Any) -> Any:
    return FUNCTIONS["matmul"](self, other) if _is_operand(other) else NotImplemented


@tensor_method(name="__rmatmul__")
def _rmatmul(self: Any, other: Any) -> Any:
    return FUNCTIONS["matmul"](other, self) if _is_operand(other) else NotImplemented
