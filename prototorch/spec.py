"""The static description of an array: shape, dtype and memory layout."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

_ITEMSIZE = {
    "bool": 1, "uint8": 1, "int8": 1, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip
FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape (including the batch dimension), dtype by NumPy's name, and memory layout.

    ``layout`` is None for row-major memory; the layout pass may set another one (for example ``"channels_last"``). It
    says how memory lies; which axis means what is said by the field ``data_format`` of a layer.
    Model files, layers and saved files only ever see None.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str | None = None

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of memory in row-major layout."""
        return self.size * _ITEMSIZE[self.dtype]

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a floating-point type, so that a gradient exists."""
        return self.dtype in FLOAT_DTYPES

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"
