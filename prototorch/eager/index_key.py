"""The key of ``x[key]``, split into a view (integers, slices, None, an ellipsis) and indices (tensors, masks)."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from prototorch import ops
from prototorch.eager.dims import as_int
from prototorch.eager.tensor import Tensor
from prototorch.errors import ModelWarning, RangeError, ShapeError, UsageError, warn_user

__all__ = ["IndexKey", "ViewPart", "check_broadcast", "checked_shape", "split_key"]

_TUPLE_PARTS = (Tensor, np.ndarray, list, tuple, slice, EllipsisType, type(None))


class ViewPart(NamedTuple):
    """The part of a tensor that a key names by integers and slices.

    start, stop, step: of each of its dimensions. shape: that of the part. flips: the dimensions of the part that are
    read backwards.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]
    flips: tuple[int, ...]
    shape: tuple[int, ...]


class IndexKey(NamedTuple):
    """A view, and what indexes the view: (first dimension, integers or a mask) in order."""

    view: ViewPart
    indices: tuple[tuple[int, Any], ...]


def split_key(shape: Sequence[int], key: Any) -> IndexKey:
    """Split a key for a tensor of this shape. Raises RangeError and UsageError for what is no key of it."""
    parts = [_part(k) for k in _as_tuple(key)]
    counts = [_num_dims(p) for p in parts]
    if sum(counts) > len(shape):
        raise RangeError(f"too many indices: {sum(counts)} for a tensor of {len(shape)} dimensions")
    ellipses = [k for k, p in enumerate(parts) if isinstance(p, EllipsisType)]
    at = ellipses[0] if ellipses else len(parts)
    parts[at : at + 1] = [slice(None)] * (len(shape) - sum(counts))
    ranges: list[range] = []
    flips: list[int] = []
    out: list[int] = []
    indices: list[tuple[int, Any]] = []
    for part in parts:
        axis = len(ranges)
        if part is None:
            out.append(1)
        elif isinstance(part, EllipsisType):
            continue
        elif isinstance(part, bool):
            indices.append((len(out), np.zeros(int(part), np.int64)))
            out.append(1)
        elif isinstance(part, int):
            n = shape[axis]
            if not -n <= part < n:
                raise RangeError(f"index {part} is out of range for dim {axis} of size {n}")
            ranges.append(range(part % n, part % n + 1))
        elif isinstance(part, slice):
            positions = range(*part.indices(shape[axis]))
            if positions.step < 0:
                flips.append(len(out))
                positions = positions[::-1]
            ranges.append(positions)
            out.append(len(positions))
        else:
            count = _num_dims(part)
            _check_mask(part, tuple(shape[axis : axis + count]), axis)
            indices.append((len(out), part))
            ranges += [range(n) for n in shape[axis : axis + count]]
            out += shape[axis : axis + count]
    start, stop = tuple(r.start for r in ranges), tuple(max(r.stop, r.start) for r in ranges)
    view = ViewPart(start, stop, tuple(r.step for r in ranges), tuple(flips), tuple(out))
    return IndexKey(view, tuple(indices))


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """The parts of a key; a list that holds sequences, slices or None stands for a tuple, as in PyTorch."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) <= 32 and any(isinstance(k, _TUPLE_PARTS) for k in key):
        return tuple(key)
    return (key,)


def _part(part: Any) -> Any:
    """A part of a key as an int, a bool, a slice of ints, None, an ellipsis, or a Tensor of integers or bools."""
    if part is None or isinstance(part, bool | int | EllipsisType):
        return part
    if isinstance(part, slice):
        return _slice_of_ints(part)
    if isinstance(part, np.bool_ | np.integer):
        return part.item()
    if isinstance(part, np.ndarray) and part.shape == () and part.dtype.kind in "iub":
        return part.item()
    if isinstance(part, list | tuple | range):
        part = _array_of(part)
    if not isinstance(part, Tensor | np.ndarray):
        raise RangeError(
            f"an index must be an integer, a slice, None, an ellipsis, or a tensor, array or list of integers or "
            f"bools, got {part!r:.60}"
        )
    name = str(part.dtype)
    if name == "uint8":
        warn_user(
            "an index of dtype uint8 is read as a mask, as in PyTorch; write one of dtype bool or int64", ModelWarning
        )
        return ops.not_equal(part, 0) if isinstance(part, Tensor) else part != 0
    if name != "bool" and not name.startswith(("int", "uint")):
        raise RangeError(f"an index must have integers or bools, got dtype {name}")
    if isinstance(part, Tensor) and part.ndim == 0 and part.interpreter.has_memory:
        return part.item()
    return part


def _slice_of_ints(part: slice) -> slice:
    ends = [None if v is None else as_int(v, "a slice", "an end or step") for v in (part.start, part.stop, part.step)]
    if ends[2] == 0:
        raise UsageError("the step of a slice must not be 0")
    return slice(*ends)


def _array_of(values: Any) -> np.ndarray:
    numbers = [v.item() if isinstance(v, Tensor) and v.spec.size == 1 else v for v in values]
    try:
        array = np.array(numbers)
    except (ValueError, TypeError):
        raise UsageError(f"an index must be a sequence of integers or bools, got {values!r:.60}") from None
    return array if array.size else array.astype(np.int64)


def _num_dims(part: Any) -> int:
    """How many dimensions of the tensor a part of a key stands for."""
    if part is None or isinstance(part, bool | EllipsisType):
        return 0
    return part.ndim if isinstance(part, Tensor | np.ndarray) and str(part.dtype) == "bool" else 1


def _check_mask(part: Any, shape: tuple[int, ...], axis: int) -> None:
    if str(part.dtype) == "bool" and tuple(part.shape) != shape:
        raise RangeError(
            f"a mask of shape {list(part.shape)} does not fit the dims from {axis} on, of shape {list(shape)}"
        )


def check_broadcast(indices: Sequence[Any]) -> tuple[int, ...]:
    """The shape that indices broadcast to. Raises RangeError where they do not."""
    try:
        return np.broadcast_shapes(*(tuple(i.shape) for i in indices))
    except ValueError:
        shapes = ", ".join(str(list(i.shape)) for i in indices)
        raise RangeError(f"indices of the shapes {shapes} do not broadcast to one shape") from None


def checked_shape(name: str, value: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Raise ShapeError where a value does not broadcast to the shape it is written to."""
    try:
        fits = np.broadcast_shapes(value, target) == target
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{name}: elements of shape {list(value)} do not broadcast to {list(target)}")
