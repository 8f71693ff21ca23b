"""What the values of an ONNX graph become: constants, known now, and outputs of layers of the net.

The size of the batch is a symbol, `BatchSize`, in shapes and in the integers that a graph computes from them. A value
of the net always has the batch dimension first; where it lies elsewhere in the ONNX value, or makes one dimension with
others ([batch * heads, time, n]), `NetValue` knows it, and the net's layers work on what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from prototorch.interop.onnx.importer.registry import NoLayerError

__all__ = [
    "BatchSize", "Dim", "KnownArray", "NetValue", "Operand", "broadcasts", "format_shape", "net_array", "net_dtype",
    "positive_axes", "positive_axis", "split_parts",
]  # fmt: skip


@dataclass(frozen=True)
class BatchSize:
    """The number of samples times a factor of at least 1; integers are multiplied and divided, no more."""

    factor: int = 1

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, BatchSize):
            raise NoLayerError("a size is the square of the batch size")
        product = self.factor * _exact(other)
        return BatchSize(int(product)) if product > 0 else self.fail() if product else 0

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, BatchSize):
            return self.factor // other.factor if self.factor % other.factor == 0 else self.fail()
        other = _exact(other)
        return BatchSize(self.factor // other) if other > 0 and self.factor % other == 0 else self.fail()

    __truediv__ = __floordiv__

    def __mod__(self, other: Any) -> Any:
        other = other.factor if isinstance(other, BatchSize) else _exact(other)
        return 0 if other and self.factor % other == 0 else self.fail()

    def __add__(self, other: Any) -> Any:
        if isinstance(other, BatchSize):
            return BatchSize(self.factor + other.factor)
        return self if _exact(other) == 0 else self.fail()

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, BatchSize):
            rest = self.factor - other.factor
            return BatchSize(rest) if rest > 0 else 0 if rest == 0 else self.fail()
        return self if _exact(other) == 0 else self.fail()

    def __int__(self) -> int:
        return self.fail()

    __index__ = __float__ = __neg__ = __abs__ = __pow__ = __int__

    def __gt__(self, other: Any) -> bool:
        """Of at least one sample: more than 0 and than any negative integer; else it is not known."""
        return True if not isinstance(other, BatchSize) and other < self.factor else self.fail()

    def __ge__(self, other: Any) -> bool:
        return True if not isinstance(other, BatchSize) and other <= self.factor else self.fail()

    def __lt__(self, other: Any) -> bool:
        return not self.__ge__(other)

    def __le__(self, other: Any) -> bool:
        return not self.__gt__(other)

    def fail(self) -> Any:
        """Raise NoLayerError."""
        raise NoLayerError("an integer follows the batch size, which a net does not know")


def _exact(value: Any) -> Any:
    """An integer, or a float that is one (exporters scale sizes as floats)."""
    if float(value) != int(value):
        raise NoLayerError("a size is a fraction of the batch size")
    return int(value)


Dim = int | BatchSize


@dataclass(frozen=True)
class KnownArray:
    """A known array: a weight, or integers computed from shapes (of dtype object where `BatchSize` is among them).

    name: of the initializer that it is, "" for others.
    """

    array: np.ndarray
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, integers or symbols of the batch."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def dtype(self) -> str:
        """NumPy's name of the element type; integers with `BatchSize` among them are int64."""
        return "int64" if self.array.dtype == object else str(self.array.dtype)

    def integers(self) -> list[Dim]:
        """All elements in order; each an integer or a `BatchSize`."""
        return [v if isinstance(v, BatchSize) else int(v) for v in self.array.reshape(-1).tolist()]

    def ints(self) -> list[int]:
        """All elements in order; NoLayerError where one follows the batch size."""
        return [int(v) for v in self.integers()]

    def scalar(self) -> Any:
        """The only element."""
        if self.array.size != 1:
            raise NoLayerError(f"a single number was expected, not {list(self.array.shape)}")
        return self.array.reshape(()).item()


@dataclass(frozen=True)
class NetValue:
    """A value of the net.

    top: its name there. dims: its shape in the net, without the batch dimension. batch_axis: the dimension of the ONNX
    value in which the batch lies; None for a value without one (the net's has it all the same). parts: how that
    dimension is made up, None standing for the batch: (None, 12) is [batch * 12], whose 12 are ``dims[0]``.
    """

    top: str
    dims: tuple[int, ...]
    dtype: str
    batch_axis: int | None = 0
    parts: tuple[int | None, ...] = (None,)

    @property
    def extra(self) -> int:
        """The number of dimensions of the net's value that belong to the ONNX value's batch dimension."""
        return len(self.parts) - 1

    @property
    def others(self) -> tuple[int, ...]:
        """The sizes of the ONNX value's other dimensions."""
        return self.dims[self.extra :]

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the ONNX value."""
        if self.batch_axis is None:
            return self.dims
        batch = BatchSize(prod(n for n in self.parts if n is not None))
        return (*self.others[: self.batch_axis], batch, *self.others[self.batch_axis :])

    @property
    def ndim(self) -> int:
        """The number of dimensions of the ONNX value."""
        return len(self.others) + (self.batch_axis is not None)

    @property
    def is_plain(self) -> bool:
        """Whether the ONNX value's dimensions are those of the net's value."""
        return self.batch_axis == 0 and not self.extra

    def axis(self, axis: int) -> int:
        """A dimension of the ONNX value as one of the net's value; NoLayerError for the batch's."""
        axis = positive_axis(axis, self.ndim)
        if self.batch_axis is None:
            return axis + 1
        if axis == self.batch_axis:
            raise NoLayerError("it works along the batch dimension, in which samples are independent")
        return 1 + self.extra + axis - (axis > self.batch_axis)

    def axes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Several dimensions, in the net's value."""
        return tuple(self.axis(a) for a in positive_axes(axes, self.ndim))


Operand = KnownArray | NetValue


def positive_axis(axis: int, ndim: int) -> int:
    """An axis counted from the front. Raises NoLayerError for one that a value of so many dimensions does not have."""
    if not -ndim <= axis < ndim:
        raise NoLayerError(f"axis {axis} does not exist in a value of {ndim} dimensions")
    return axis % ndim


def positive_axes(axes: Sequence[int], ndim: int) -> list[int]:
    """Axes counted from the front, in their order. Raises NoLayerError for one that does not exist, and for twins."""
    places = [positive_axis(axis, ndim) for axis in axes]
    if len(set(places)) < len(places):
        raise NoLayerError(f"axes {list(axes)[:12]} name a dimension of {ndim} twice")
    return places


def broadcasts(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether an array of a shape can be repeated to another shape."""
    short = len(target) - len(shape)
    return short >= 0 and all(n in (1, m) for n, m in zip(shape, target[short:], strict=True))


def net_dtype(dtype: str) -> str:
    """The element type in the net of ONNX' one: nets compute in float32, in lower precision by the device's policy."""
    return "float32" if dtype.startswith(("float", "bfloat")) else dtype


def net_array(array: np.ndarray) -> np.ndarray:
    """An array of the net's element types."""
    return array.astype(np.float32) if array.dtype.kind == "f" and array.dtype != np.float32 else array


def split_parts(parts: tuple[int | None, ...]) -> tuple[list[int], list[int]]:
    """The parts outside and inside the batch."""
    place = parts.index(None)
    return [n for n in parts[:place] if n is not None], [n for n in parts[place + 1 :] if n is not None]


def format_shape(shape: Sequence[Any]) -> str:
    """A shape as messages say it: [5 * batch, 6]."""
    sizes = [
        "batch" if n == BatchSize(1) else f"{n.factor} * batch" if isinstance(n, BatchSize) else str(n) for n in shape
    ]
    return f"[{', '.join(sizes)}]"
