"""Look-ups in a table of vectors, and their sums over bags of indices."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.registry import FUNCTIONS
from prototorch.eager.value_bounds import bounded, bounded_values
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input, note_dense_gradients

__all__ = ["embedding", "embedding_bag"]


def _checked(name: str, indices: Any, weight: Any, sparse: bool) -> Any:
    """The indices, which must be rows of the table."""
    check_input(indices, name)
    check_input(weight, name)
    if str(indices.dtype) not in ("int64", "int32"):
        raise UsageError(f"{name}: indices must be int64 or int32, got {indices.dtype}")
    if weight.ndim != 2:
        raise ShapeError(f"{name}: expected a table [rows, columns], got {list(weight.shape)}")
    if sparse:
        note_dense_gradients(name)
    rows = weight.shape[0]
    return bounded(indices, rows, f"{name}: indices must lie in 0 .. {rows - 1}, got {{}}", waits_for_device=True)


def padding_row(name: str, padding_idx: int | None, rows: int) -> int | None:
    """The index of the padding row, from 0 on. Raises UsageError for one outside the table."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise UsageError(f"{name}: padding_idx must lie in {-rows} .. {rows - 1}, got {padding_idx}")
    return padding_idx % rows


def _counts(indices: Any, rows: int, dtype: str) -> Any:
    """How often each row is read, [rows]."""
    flat = ops.reshape(indices, shape=(indices.spec.size,))
    ones = ops.broadcast_to(ops.cast(ops.zeros_like(flat) + 1, dtype=dtype), shape=(flat.shape[0],))
    return ops.squeeze(ops.embedding_grad(ops.expand_dims(ones, axis=1), flat, rows=rows), axis=1)


def _limit_norms(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are read, in place, so that their norms are at most ``max_norm``."""
    with no_grad():
        table = weight.detach()
        norms = FUNCTIONS["norm"](table, norm_type, 1, keepdim=True)
        is_read = ops.expand_dims(ops.greater(_counts(indices, weight.shape[0], str(weight.dtype)), 0), axis=1)
        is_long = ops.logical_and(is_read, ops.greater(norms, max_norm))
        assign(weight, ops.where(is_long, table * (max_norm / (norms + 1e-7)), table), "embedding")


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of weight [rows, columns] at indices [...]: [..., columns].

    padding_idx: a row without a gradient. max_norm: rows that are read are scaled, in place, to a norm (``norm_type``)
    of at most this. scale_grad_by_freq: gradients are divided by how often the row is read. Raises RangeError for an
    index outside, ModelWarning for ``sparse``, whose gradient is dense.
    """
    input = _checked("embedding", input, weight, sparse)
    padding = padding_row("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        _limit_norms(weight, input, float(max_norm), float(norm_type))
    y = ops.take(weight, input)
    if scale_grad_by_freq:
        counts = _counts(input, weight.shape[0], str(weight.dtype))
        factor = 1 / ops.take(ops.expand_dims(counts, axis=1), input)
        y = y * factor + ops.stop_gradient(y * (1 - factor))
    if padding is not None:
        is_padding = ops.expand_dims(ops.equal(input, padding), axis=-1)
        y = ops.where(is_padding, ops.stop_gradient(y), y)
    return y


def _checked_offsets(name: str, offsets: Any, count: int) -> Any:
    """The first index of each bag: the first must be 0, the others not larger than the number of indices. Raises
    UsageError, see `bounded_values`."""
    if not offsets.shape[0]:
        return offsets
    words = f"{name}: offsets must lie in 0 .. {count}, the number of indices, got {{}}"
    offsets = bounded_values(offsets, words, 0, count)
    first = bounded_values(offsets[:1], f"{name}: the first offset must be 0, got {{}}", 0, 0)
    return ops.concat(first, offsets[1:], axis=0)


def _bag_of_each(offsets: Any, count: int, bags: int) -> Any:
    """The bag of each index, [count]."""
    at = ops.cast(ops.iota.apply_like(offsets, size=count), dtype="int64")
    first = offsets if offsets.shape[0] == bags else FUNCTIONS["narrow"](offsets, 0, 0, bags)
    return ops.searchsorted(ops.cast(first, dtype="int64"), at, side="right") - 1


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sums, means or maxima (``mode``) of rows of weight [rows, columns] over bags of indices: [bags, columns].

    input: [bags, indices], or [indices] with ``offsets`` [bags] of the first index of each bag. per_sample_weights: a
    factor of each index, for "sum". include_last_offset: whether the last offset is the end. padding_idx: a row that
    does not count. An empty bag gives zeros. Raises UsageError, ShapeError and RangeError for what does not fit.
    """
    name = "embedding_bag"
    input = _checked(name, input, weight, sparse)
    if mode not in ("sum", "mean", "max"):
        raise UsageError(f"{name}: mode must be 'sum', 'mean' or 'max', got {mode!r:.60}")
    if per_sample_weights is not None and (mode != "sum" or tuple(per_sample_weights.shape) != tuple(input.shape)):
        raise UsageError(f"{name}: per_sample_weights go with mode 'sum' and have the input's shape")
    if scale_grad_by_freq and mode == "max":
        raise UsageError(f"{name}: scale_grad_by_freq does not go with mode 'max'")
    if input.ndim == 2:
        if offsets is not None:
            raise UsageError(f"{name}: offsets go with an input of one dimension")
        bags, width = input.shape
        numbers = ops.cast(ops.iota.apply_like(input, size=bags), dtype="int64")
        ids = ops.reshape(
            ops.broadcast_to(ops.reshape(numbers, shape=(bags, 1)), shape=(bags, width)), shape=(bags * width,)
        )
        input = ops.reshape(input, shape=(bags * width,))
        if per_sample_weights is not None:
            per_sample_weights = ops.reshape(per_sample_weights, shape=(bags * width,))
    elif input.ndim == 1 and offsets is not None and offsets.ndim == 1:
        bags = offsets.shape[0] - bool(include_last_offset)
        offsets = _checked_offsets(name, offsets, input.shape[0])
        ids = _bag_of_each(offsets, input.shape[0], bags)
    else:
        raise ShapeError(
            f"{name}: expected indices [bags, indices], or [indices] and offsets [bags], got {list(input.shape)}"
        )
    rows = embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq)
    dtype = str(weight.dtype)
    padding = padding_row(name, padding_idx, weight.shape[0])
    is_counted = ops.not_equal(input, -1 if padding is None else padding)
    counted_ids = ops.expand_dims(ops.cast(is_counted, dtype=dtype), axis=1)
    if mode == "max":
        masked = ops.where(ops.expand_dims(is_counted, axis=1), rows, float("-inf"))
        return _max_of_bags(masked, ids, bags)
    factor = counted_ids if per_sample_weights is None else counted_ids * ops.expand_dims(per_sample_weights, axis=1)
    total = ops.embedding_grad(rows * factor, ids, rows=bags)
    if mode == "sum":
        return total
    return total / ops.maximum(ops.embedding_grad(counted_ids, ids, rows=bags), 1.0)


def _max_of_bags(rows: Any, ids: Any, bags: int) -> Any:
    """The maxima of rows [n, columns] over bags; zeros for an empty one."""
    n = rows.shape[0]
    numbers = ops.cast(ops.iota.apply_like(ids, size=bags), dtype="int64")
    of_bag = ops.equal(ops.reshape(ids, shape=(1, n)), ops.reshape(numbers, shape=(bags, 1)))
    members = ops.where(ops.expand_dims(of_bag, axis=2), ops.expand_dims(rows, axis=0), float("-inf"))
    if not n:
        return ops.broadcast_to(ops.zeros_like(rows), shape=(bags, rows.shape[1]))
    number = ops.argmax(ops.stop_gradient(members), axis=1)  # one row of each bag has the gradient
    order = (0, 2, 1)
    best = ops.take_along_axis(ops.transpose(members, order=order), ops.expand_dims(number, axis=-1))
    best = ops.squeeze(best, axis=-1)
    return ops.where(ops.equal(best, float("-inf")), ops.zeros_like(best), best)
