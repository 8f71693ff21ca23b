"""Padding as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.nn import functional as F
from prototorch.nn.arguments import as_tuple
from prototorch.nn.module import Module

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
           "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]  # fmt: skip


class _Pad(Module):
    """padding: one number, or (before, after) of each dimension, the last one first."""

    rank: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: Any = None

    def __init__(self, padding: Any):
        super().__init__()
        count = 2 * self.rank
        self.padding = as_tuple(padding, count, f"{type(self).__name__}: padding")

    def forward(self, input: Any) -> Any:
        """The input with its padding."""
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """The padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    value = 0.0


class ConstantPad1d(_ConstantPad):
    """The input with a value at the ends of one dimension.

    padding: one number, or (before, after) of each dimension, the last one first. value: the value.
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """The input with a value at the ends of two dimensions.

    padding: one number, or (before, after) of each dimension, the last one first. value: the value.
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """The input with a value at the ends of three dimensions.

    padding: one number, or (before, after) of each dimension, the last one first. value: the value.
    """

    rank = 3


class ZeroPad1d(_ZeroPad):
    """The input with zeros at the ends of one dimension.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """The input with zeros at the ends of two dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """The input with zeros at the ends of three dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 3


class ReflectionPad1d(_Pad):
    """The input with its own elements, reflected at the border at the ends of one dimension.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """The input with its own elements, reflected at the border at the ends of two dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """The input with its own elements, reflected at the border at the ends of three dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The input with its border elements at the ends of one dimension.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The input with its border elements at the ends of two dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The input with its border elements at the ends of three dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """The input with the elements of its other end at the ends of one dimension.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """The input with the elements of its other end at the ends of two dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """The input with the elements of its other end at the ends of three dimensions.

    padding: one number, or (before, after) of each dimension, the last one first.
    """

    rank = 3
    mode = "circular"
