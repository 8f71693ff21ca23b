"""Where the batch lies in the target of a reshape.

A file that was made for one batch size has that number among its shapes, as any other: exporters write [1, -1] for
``x.view(x.size(0), -1)``. The sizes are then completed for the file's own batch, and the dimension that holds the batch
is found by the elements before and after it: every place that is possible gives each sample what the file gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch.interop.onnx.importer.operands import BatchSize, Dim, NetValue, format_shape, split_parts
from prototorch.interop.onnx.importer.registry import NoLayerError

__all__ = ["complete_shape", "find_batch", "fixed_batch_hint", "fixed_shape"]


def fixed_shape(value: NetValue, batch: int) -> list[int]:
    """The shape of the ONNX value for one batch size."""
    return [n.factor * batch if isinstance(n, BatchSize) else n for n in value.shape]


def complete_shape(value: NetValue, shape: list[Dim], fixed_batch: int | None) -> list[Dim]:
    """The target of a reshape without -1. fixed_batch: the batch size that the file was made for; None for any."""
    unknown = [i for i, n in enumerate(shape) if not isinstance(n, BatchSize) and n == -1]
    if len(unknown) > 1 or any(not isinstance(n, BatchSize) and n < -1 for n in shape):
        raise NoLayerError(f"it reshapes to the impossible shape {format_shape(shape)}")
    if not unknown:
        return shape
    known_size: Any = prod((n for i, n in enumerate(shape) if i not in unknown), start=1)
    total: Any = prod(value.shape, start=1)
    if isinstance(total, BatchSize) and fixed_batch and isinstance(known_size, int):
        total = total.factor * fixed_batch
    if (isinstance(known_size, int) and known_size == 0) or total == 0:
        raise NoLayerError("it reshapes an array without elements")
    if isinstance(total, int) and isinstance(known_size, int) and total % known_size:
        raise NoLayerError(
            f"a reshape of {format_shape(value.shape)} to {format_shape(shape)} has no whole size for -1"
        )
    shape[unknown[0]] = (
        total // known_size
        if isinstance(total, BatchSize) or not isinstance(known_size, BatchSize)
        else known_size.fail()
    )
    return shape


def find_batch(value: NetValue, shape: Sequence[Dim], fixed_batch: int | None) -> tuple[int, int]:
    """The dimension of the target in which the batch lies, and the factor of the batch size there."""
    batch_positions = [(i, n.factor) for i, n in enumerate(shape) if isinstance(n, BatchSize)]
    total = prod(value.others) * prod(n for n in value.parts if n is not None)
    change = f"a reshape of {format_shape(value.shape)} to {format_shape(shape)}"
    if len(batch_positions) == 1:
        if prod(int(n) for n in shape if not isinstance(n, BatchSize)) * batch_positions[0][1] != total:
            raise NoLayerError(f"{change} changes the number of elements")
        return batch_positions[0]
    batch = fixed_batch
    if batch_positions or batch is None or prod(int(n) for n in shape) != total * batch:
        raise NoLayerError(f"{change} loses the batch dimension")
    outer, _ = split_parts(value.parts)
    before = prod(value.others[: value.batch_axis or 0]) * prod(outer)
    sizes = [int(n) for n in shape]
    candidates = [
        (n > batch, n > batch and i == len(sizes) - 1, i != value.batch_axis, n // batch, i)
        for i, n in enumerate(sizes)
        if n % batch == 0 and before % (outside := prod(sizes[:i])) == 0 and (n // batch) % (before // outside) == 0
    ]
    if not candidates:
        raise NoLayerError(f"{change} mixes samples")
    # alone in its dimension if that is possible, else not joined with the features, which are last; best where it was
    *_, factor, axis = min(candidates)
    return axis, factor


def fixed_batch_hint(batch: int | None) -> str:
    """What to try, at the end of an error about a file that was made for one batch size; "" for others."""
    if batch is None:
        return ""
    return (
        f". The file was made for a batch of {batch}: if that is the cause, export it with a dynamic batch, or say by "
        "batch_axis (--batch-axis) which dimension the batch is"
    )
