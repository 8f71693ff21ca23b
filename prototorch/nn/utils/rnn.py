"""Sequences of different lengths in one batch, by PyTorch's names: padded, or packed without the padding.

packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
output, (h, c) = lstm(packed)
output, lengths = pad_packed_sequence(output, batch_first=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from prototorch import ops
from prototorch.eager.functions.creation import tensor
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
           "pad_sequence", "unpack_sequence", "unpad_sequence"]  # fmt: skip


class PackedSequence(NamedTuple):
    """A batch of sequences without padding, the longest first, made by `pack_padded_sequence` or `pack_sequence`.

    data: the elements of step 0 of all sequences, then those of step 1, ... [sum of the lengths, ...]. batch_sizes:
    the number of sequences that have each step, int64 [longest]. sorted_indices: the order in which the sequences
    are; unsorted_indices: the way back; both int64 [batch], or None for sequences that came sorted.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **options: Any) -> Self:
        """With the data moved or cast, as `Tensor.to` does."""
        return self._replace(data=self.data.to(*args, **options))

    def double(self) -> Self:
        """With float64 data."""
        return self._replace(data=self.data.double())

    def float(self) -> Self:
        """With float32 data."""
        return self._replace(data=self.data.float())

    def cpu(self) -> Self:
        """With the data in the host's memory."""
        return self._replace(data=self.data.cpu())

    def cuda(self, *args: Any, **options: Any) -> Self:
        """With the data on the GPU."""
        return self._replace(data=self.data.cuda(*args, **options))

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Whether the data are in pinned memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a permutation, int64 [n]; None of None."""
    return None if permutation is None else tensor(np.argsort(permutation.numpy(), kind="stable"))


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences [time, batch, ...] (with ``batch_first`` [batch, time, ...]).

    lengths: of each sequence, at least 1; integers or an int tensor on the CPU. enforce_sorted: whether they must come
    with the longest first; else they are sorted here. Raises ShapeError and UsageError for other lengths.
    """
    check_input(input, "pack_padded_sequence")
    if input.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: expected [time, batch, ...], got {list(input.shape)}")
    padded = input if batch_first else _swap(input)
    batch, time = padded.shape[:2]
    length_array = _lengths(lengths)
    if len(length_array) != batch:
        raise ShapeError(f"pack_padded_sequence: there are {batch} sequences, but {len(length_array)} lengths")
    if not batch or min(length_array) < 1 or max(length_array) > time:
        raise UsageError(
            f"pack_padded_sequence: each length must be from 1 to the {time} steps, got {length_array!s:.80}"
        )
    order = np.argsort(-length_array, kind="stable")
    if enforce_sorted and not np.array_equal(order, np.arange(batch)):
        raise UsageError(
            "pack_padded_sequence: the lengths must be sorted, the longest first, got "
            f"{length_array.tolist()!s:.80}; pass enforce_sorted=False to have them sorted here"
        )
    indices = None if enforce_sorted else tensor(order, device="cpu")
    sizes = (length_array[order][None, :] > np.arange(max(length_array))[:, None]).sum(axis=1)
    positions = np.concatenate([order[:size] * time + t for t, size in enumerate(sizes)])
    flat = ops.reshape(padded, shape=(batch * time, *padded.shape[2:]))
    return PackedSequence(_rows(flat, positions), tensor(sizes.astype(np.int64)), indices, invert_permutation(indices))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """The padded sequences [time, batch, ...] (with ``batch_first`` [batch, time, ...]) and their lengths, int64.

    padding_value: of the steps behind the ends. total_length: of the padded sequences, at least the longest.
    """
    sizes = check_packed(sequence, "pad_packed_sequence").batch_sizes.numpy()
    time = len(sizes) if total_length is None else int(total_length)
    if time < len(sizes):
        raise UsageError(
            f"pad_packed_sequence: total_length must be at least {len(sizes)}, the longest sequence; got {total_length}"
        )
    padded, mask = padded_batch(sequence, time, padding_value)
    lengths = mask.sum(axis=1)
    if sequence.unsorted_indices is not None:
        back = sequence.unsorted_indices.numpy()
        padded, lengths = _rows(padded, back), lengths[back]
    return (padded if batch_first else _swap(padded)), tensor(lengths.astype(np.int64))


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Tensors [time, ...] of different lengths as one, [longest, batch, ...] (with ``batch_first`` [batch, longest,
    ...]), with ``padding_value`` behind them (padding_side "left": before them)."""
    if padding_side not in ("left", "right"):
        raise UsageError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r:.60}")
    tensors = _sequences(sequences, "pad_sequence")
    longest = max(t.shape[0] for t in tensors)
    parts = []
    for t in tensors:
        size = longest - t.shape[0], *t.shape[1:]
        missing = ops.full.apply_like(t, shape=size, value=padding_value, dtype=str(t.dtype))
        parts.append(ops.concat(*((missing, t) if padding_side == "left" else (t, missing)), axis=0))
    return ops.stack(parts, axis=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded tensor without their padding, as a list."""
    padded = padded_sequences if batch_first else _swap(padded_sequences)
    return [padded[k][: int(n)] for k, n in enumerate(_lengths(lengths))]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors [time, ...] of different lengths; as `pack_padded_sequence`."""
    tensors = _sequences(sequences, "pack_sequence")
    return pack_padded_sequence(pad_sequence(tensors), [t.shape[0] for t in tensors], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed batch, as a list of tensors [time, ...]."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))


def padded_batch(sequence: PackedSequence, time: int, padding_value: float = 0.0) -> tuple[Any, np.ndarray]:
    """A packed batch as [batch, time, ...], in the order in which it is packed, and which steps there are, bool [batch,
    time]."""
    sizes = sequence.batch_sizes.numpy()
    batch = int(sizes[0])
    mask = np.zeros((batch, time), bool)
    mask[:, : len(sizes)] = np.arange(batch)[:, None] < sizes[None, :]
    starts = np.zeros(time, np.int64)
    starts[: len(sizes)] = np.cumsum(sizes) - sizes
    positions = np.where(mask, starts[None, :] + np.arange(batch)[:, None], 0)
    rows = _rows(sequence.data, positions.reshape(-1))
    padded = ops.reshape(rows, shape=(batch, time, *sequence.data.shape[1:]))
    if mask.all():
        return padded, mask
    full_mask = mask.reshape(batch, time, *(1,) * (padded.ndim - 2))
    return ops.where(full_mask, padded, np.asarray(padding_value, padded.spec.dtype)), mask


def packed_again(padded: Any, sequence: PackedSequence) -> PackedSequence:
    """[batch, time, ...] in the order of a packed batch, packed as that is."""
    sizes = sequence.batch_sizes.numpy()
    batch, time = padded.shape[:2]
    positions = np.concatenate([np.arange(size) * time + t for t, size in enumerate(sizes)])
    data = _rows(ops.reshape(padded, shape=(batch * time, *padded.shape[2:])), positions)
    return sequence._replace(data=data)


def _rows(x: Any, positions: np.ndarray) -> Any:
    """The rows of x at these positions."""
    return ops.take(x, positions.astype(np.int64))


def _swap(x: Any) -> Any:
    return ops.transpose(x, order=(1, 0, *range(2, x.ndim)))


def _lengths(lengths: Any) -> np.ndarray:
    if not hasattr(lengths, "numpy") and not hasattr(lengths, "__iter__"):
        raise UsageError(f"lengths must be integers, one for each sequence, got {lengths!r:.60}")
    array = lengths.numpy() if hasattr(lengths, "numpy") else np.asarray(list(lengths))
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError(f"lengths must be integers, one for each sequence, got {lengths!r:.60}")
    return array.astype(np.int64)


def _sequences(sequences: Any, name: str) -> list[Any]:
    if not isinstance(sequences, Sequence | tuple) and not hasattr(sequences, "__iter__"):
        raise UsageError(f"{name}: expected a list of tensors, got {type(sequences).__name__}")
    tensors = list(sequences)
    for t in tensors:
        check_input(t, name)
    if not tensors or any(not t.ndim or t.shape[1:] != tensors[0].shape[1:] for t in tensors):
        shapes = ", ".join(str(list(t.shape)) for t in tensors[:8])
        raise ShapeError(f"{name}: expected tensors [time, ...] that differ in time alone, got {shapes or 'none'}")
    return tensors


def check_packed(sequence: Any, name: str) -> PackedSequence:
    """The sequence. Raises UsageError for what is no `PackedSequence`, or one whose parts do not fit together."""
    if not isinstance(sequence, PackedSequence):
        raise UsageError(f"{name}: expected a PackedSequence, got {type(sequence).__name__}")
    check_input(sequence.data, f"{name}: data")
    check_input(sequence.batch_sizes, f"{name}: batch_sizes")
    sizes = sequence.batch_sizes.numpy()
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not sizes.size or sizes[-1] < 1 or (np.diff(sizes) > 0).any():
        raise UsageError(f"{name}: batch_sizes must be integers of at least 1 that never grow, got {sizes!s:.80}")
    if not sequence.data.ndim or sequence.data.shape[0] != sizes.sum():
        raise ShapeError(
            f"{name}: batch_sizes are {sizes.sum()} elements, but the data are {list(sequence.data.shape)}"
        )
    for order in (sequence.sorted_indices, sequence.unsorted_indices):
        if order is not None and not np.array_equal(np.sort(order.numpy(), axis=None), np.arange(sizes[0])):
            raise UsageError(f"{name}: the indices must be an order of the {sizes[0]} sequences, got {order!r:.80}")
    return sequence
