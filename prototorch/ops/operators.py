"""The arithmetic operators of values: `x + 1`, `-x`, `x @ w`, `x[:, 0]`. Each calls an op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from prototorch.errors import UsageError

#: Ops by name. An op registers itself here when it is created; the operators look it up when they are called.
OPS: dict[str, Callable[..., Any]] = {}

#: Functions of ops that are names of `prototorch.ops`, beside the ops themselves.
FUNCTIONS: dict[str, Callable[..., Any]] = {}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def op_function(function: _Function) -> _Function:
    """Make a function that is expressed in ops a name of `prototorch.ops`."""
    FUNCTIONS[function.__name__] = function
    return function


def _binary_operator(name: str, swap: bool = False):
    def method(self: Any, other: Any) -> Any:
        return OPS[name](other, self) if swap else OPS[name](self, other)

    return method


class SpecProperties:
    """The properties that a value has by its ``spec``."""

    __slots__ = ()
    spec: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, the batch dimension included."""
        return self.spec.shape

    @property
    def dtype(self) -> str:
        """The element type by NumPy's name."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)


class OperatorMixin:
    """A mixin of operators for a class whose instances have `interpreter`, `shape` and `dtype`."""

    __slots__ = ()
    shape: Any
    __array_priority__ = 1000  # NumPy leaves `array + value` to the value
    __array_ufunc__ = None

    __add__, __radd__ = _binary_operator("add"), _binary_operator("add", swap=True)
    __sub__, __rsub__ = _binary_operator("subtract"), _binary_operator("subtract", swap=True)
    __mul__, __rmul__ = _binary_operator("multiply"), _binary_operator("multiply", swap=True)
    __truediv__, __rtruediv__ = _binary_operator("divide"), _binary_operator("divide", swap=True)
    __pow__, __rpow__ = _binary_operator("power"), _binary_operator("power", swap=True)
    __matmul__, __rmatmul__ = _binary_operator("matmul"), _binary_operator("matmul", swap=True)
    __lt__, __le__ = _binary_operator("less"), _binary_operator("less_equal")
    __gt__, __ge__ = _binary_operator("less", swap=True), _binary_operator("less_equal", swap=True)

    def __neg__(self) -> Any:
        return OPS["negative"](self)

    def __getitem__(self, key: Any) -> Any:
        """Basic slicing: integers, slices with positive or negative steps, an ellipsis, None for a new axis."""
        return OPS["getitem"](self, key)

    def __iter__(self) -> Iterator[Any]:
        """The values along the first dimension, in order. Raises UsageError where there is no dimension."""
        if not self.shape:
            raise UsageError("the value has no dimension to iterate over")
        return (self[i] for i in range(self.shape[0]))
