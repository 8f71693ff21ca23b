"""Samples put together to batches, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from prototorch.eager.tensor import Tensor
from prototorch.errors import DataError
from prototorch.utils.data.arrays import as_tensor, stack

__all__ = ["default_collate", "default_convert"]


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples of one structure: each leaf becomes a tensor with a new first axis.

    Tensors and NumPy arrays are stacked in their dtype; Python's floats become float64, its integers int64, its bools
    bool; text and bytes remain lists. Mappings, named tuples, tuples and lists are kept (a tuple becomes a list).

    Raises:
        DataError: a leaf of another type, samples of different shapes, lengths or keys, or an empty batch.
    """
    if not len(batch):
        raise DataError("an empty batch cannot be collated")
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch, stack)
    if isinstance(first, np.ndarray | np.generic):
        if first.dtype.kind not in "biufV":
            raise DataError(f"a batch holds NumPy elements of dtype {first.dtype}, of which there are no tensors")
        return _stacked(batch, lambda arrays: as_tensor(np.stack(arrays)))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, float):
        return as_tensor(np.array(batch, np.float64))
    if isinstance(first, int):
        return as_tensor(np.array(batch, np.bool_ if all(isinstance(item, bool) for item in batch) else np.int64))
    if isinstance(first, Mapping):
        return _mapping(batch, first)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in _columns(batch)))
    if isinstance(first, tuple):
        return [default_collate(column) for column in _columns(batch)]
    if isinstance(first, Sequence):
        columns = [default_collate(column) for column in _columns(batch)]
        return _like(first, columns)
    raise DataError(
        "a sample holds a "
        f"{type(first).__module__}.{type(first).__name__}, which default_collate cannot put into a tensor: samples are "
        "tensors, NumPy arrays, numbers, text, and dicts, lists and tuples of them; or pass collate_fn=..."
    )


def default_convert(data: Any) -> Any:
    """One sample, or batch, with each NumPy array in it as a tensor of the same memory; the rest as it is."""
    if isinstance(data, np.ndarray | np.generic):
        return as_tensor(data) if data.dtype.kind in "biuf" else data
    if isinstance(data, Mapping):
        return _same_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like(data, [default_convert(value) for value in data])
    return data


def _stacked(batch: Sequence[Any], stack_all: Callable[[Sequence[Any]], Tensor]) -> Tensor:
    shapes = list(dict.fromkeys(tuple(getattr(item, "shape", ("?",))) for item in batch))
    if len(shapes) > 1 or any(not hasattr(item, "shape") for item in batch):
        listing = ", ".join(str(list(shape)) for shape in shapes[:4])
        raise DataError(
            f"the samples of a batch have different shapes ({listing}): pad them to one, or pass collate_fn=..."
        )
    return stack_all(list(batch))


def _mapping(batch: Sequence[Mapping[Any, Any]], first: Mapping[Any, Any]) -> Any:
    for sample in batch:
        missing = [key for key in first if key not in sample]
        if missing:
            raise DataError(f"a sample of a batch has no {missing[0]!r}, which the first one has")
    return _same_mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})


def _same_mapping(example: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    if type(example) is not dict:
        try:
            if isinstance(example, MutableMapping):
                clone = type(example)(example)  # type: ignore[call-arg]
                clone.update(values)
                return clone
            return type(example)(values)  # type: ignore[call-arg]
        except TypeError:
            pass  # a mapping that is not made of another one
    return values


def _columns(batch: Sequence[Any]) -> list[tuple[Any, ...]]:
    lengths = list(dict.fromkeys(len(sample) for sample in batch))
    if len(lengths) > 1:
        raise DataError(f"the samples of a batch hold different numbers of elements ({lengths}); pass collate_fn=...")
    return list(zip(*batch, strict=True))


def _like(example: Sequence[Any], values: list[Any]) -> Any:
    if type(example) is list or not isinstance(example, MutableSequence):
        try:
            return values if type(example) in (list, range) else type(example)(values)  # type: ignore[call-arg]
        except TypeError:
            return values
    clone: Any = type(example)(example)  # type: ignore[call-arg]
    for index, value in enumerate(values):
        clone[index] = value
    return clone
