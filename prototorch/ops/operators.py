"""The operators that every value shares: `x + 1`, `-x`, `x @ w`, `x[:, 0]`. Each stands for an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Ops by name. An op enters itself here when it is made, so that the operators find it when they are used.
OPS: dict[str, Callable[..., Any]] = {}


def _binary(name: str, swap: bool = False):
    def method(self: Any, other: Any) -> Any:
        return OPS[name](other, self) if swap else OPS[name](self, other)

    return method


class Arithmetic:
    """Operators for a class whose instances have `interpreter`, `shape` and `dtype`."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy leaves `array + value` to the value
    __array_ufunc__ = None

    __add__, __radd__ = _binary("add"), _binary("add", swap=True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", swap=True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", swap=True)
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", swap=True)
    __pow__, __rpow__ = _binary("power"), _binary("power", swap=True)
    __matmul__, __rmatmul__ = _binary("matmul"), _binary("matmul", swap=True)
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("less", swap=True), _binary("less_equal", swap=True)

    def __neg__(self) -> Any:
        return OPS["negative"](self)

    def __getitem__(self, key: Any) -> Any:
        """Basic slicing: integers, slices with positive or negative steps, an ellipsis, None for a new axis."""
        return OPS["getitem"](self, key)
