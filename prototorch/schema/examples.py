"""Examples: every layer (loss, ...) is documented and tested by its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A piece of model text with the inputs it may be tried on.

    text: one block, such as ``Dense { units: 4 }``.
    inputs: the shape of each input without the batch dimension.
    dtype: the inputs' element type by NumPy's name, one for all or one each.
    training: the phase to try (None: both).
    extra: anything else a harness may know, by name.
    """

    text: str
    inputs: tuple[tuple[int, ...], ...] = ()
    dtype: str | tuple[str, ...] = "float32"
    training: bool | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def example(
    text: str,
    inputs: Sequence[Sequence[int]] = (),
    *,
    dtype: str | Sequence[str] = "float32",
    training: bool | None = None,
    **extra: Any,
) -> Example:
    """An :class:`Example`."""
    shapes = tuple(tuple(shape) for shape in inputs)
    dtypes = dtype if isinstance(dtype, str) else tuple(dtype)
    return Example(text, shapes, dtypes, training, MappingProxyType(extra))
