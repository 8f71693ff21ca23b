"""Running a net over more samples than one batch holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from prototorch.errors import UsageError

__all__ = ["forward_all", "forward_backward_all"]

Arrays = dict[str, np.ndarray]


def forward_all(net: Any, blobs: Sequence[str] | None, arrays: Mapping[str, Any]) -> Arrays:
    """See `Net.forward_all`."""
    parts: dict[str, list[np.ndarray]] = {}
    for batch in _batches(net, arrays):
        for name, array in net.forward(blobs=blobs, **batch).items():
            parts.setdefault(name, []).append(array.copy())
    return _concatenate(parts, _sample_count(arrays))


def forward_backward_all(
    net: Any, blobs: Sequence[str] | None, diffs: Sequence[str] | None, arrays: Mapping[str, Any]
) -> tuple[Arrays, Arrays]:
    """See `Net.forward_backward_all`."""
    inputs = {name: arrays[name] for name in net.inputs if name in arrays}
    gradients = {name: arrays[name] for name in net.outputs if name in arrays}
    parts: tuple[dict[str, list[np.ndarray]], ...] = {}, {}
    empty: Arrays = {}
    pairs = zip_longest(_batches(net, inputs), _batches(net, gradients), fillvalue=empty)
    for forward_batch, backward_batch in pairs:
        results = net.forward(blobs=blobs, **forward_batch), net.backward(diffs=diffs, **backward_batch)
        for store, result in zip(parts, results, strict=True):
            for name, array in result.items():
                store.setdefault(name, []).append(array.copy())
    count = _sample_count(inputs or gradients)
    return _concatenate(parts[0], count), _concatenate(parts[1], count)


def _batches(net: Any, arrays: Mapping[str, Any]) -> Iterator[Arrays]:
    """The arrays in batches of the net's size; the last one is padded with zeros."""
    if not arrays:
        return
    size, count = next(iter(net.blobs.values())).shape[0], _sample_count(arrays)
    for start in range(0, count, size):
        batch = {name: np.asarray(array[start : start + size]) for name, array in arrays.items()}
        missing = size - min(size, count - start)
        yield {
            name: np.concatenate([part, np.zeros((missing, *part.shape[1:]), part.dtype)]) if missing else part
            for name, part in batch.items()
        }


def _sample_count(arrays: Mapping[str, Any]) -> int:
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(f"all arrays must have as many samples, not {counts}")
    return next(iter(counts.values()), 0)


def _concatenate(parts: Mapping[str, list[np.ndarray]], count: int) -> Arrays:
    """The batches of each blob one behind the other, without the padding; of a scalar one number a batch."""
    result = {}
    for name, batches in parts.items():
        is_scalar = batches[0].ndim == 0
        array = np.stack(batches) if is_scalar else np.concatenate(batches)
        result[name] = array if is_scalar or not count else array[:count]
    return result
