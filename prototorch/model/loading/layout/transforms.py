"""What changes the arrays of another system to ours and back: transpositions, orders of gates, packed matrices.

None of them loses a bit but `SumArrays`, whose parts cannot be told apart again. Where it can be, a result is a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = [
    "Arrays",
    "Chain",
    "ConcatenateArrays",
    "EachArray",
    "FlipArray",
    "GateOrder",
    "IgnoredArray",
    "NeutralArray",
    "ReshapeArray",
    "SplitArray",
    "StackArrays",
    "SumArrays",
    "Transform",
    "TransformError",
    "TransposeArray",
]  # fmt: skip

Arrays = tuple[np.ndarray, ...]


class TransformError(Exception):
    """Arrays that cannot be those of the layer; the text is the reason."""


@dataclass(frozen=True)
class Transform:
    """Arrays of the other system to ours and back; this one leaves them as they are. Subclasses say what they do."""

    def to_ours(self, arrays: Arrays) -> Arrays:
        """Our weights, from the other system's arrays in the order of `WeightLayout.theirs`."""
        return arrays

    def to_theirs(self, arrays: Arrays) -> Arrays:
        """The other system's arrays, from our weights in the order of `WeightLayout.ours`."""
        return arrays

    def their_shapes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        """The shapes of the other system's arrays for our weights' shapes; computed without their memory."""
        return tuple(a.shape for a in self.to_theirs(tuple(np.broadcast_to(np.int8(0), s) for s in shapes)))

    def __str__(self) -> str:
        """For reports ("transposed (1, 0)"); "" for none."""
        return ""


@dataclass(frozen=True)
class TransposeArray(Transform):
    """``ours = theirs.transpose(axes)``."""

    axes: tuple[int, ...]

    def to_ours(self, arrays: Arrays) -> Arrays:
        return tuple(_with_rank(a, len(self.axes)).transpose(self.axes) for a in arrays)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        inverse = tuple(int(i) for i in np.argsort(self.axes))
        return tuple(a.transpose(inverse) for a in arrays)

    def __str__(self) -> str:
        return f"transposed {self.axes}"


@dataclass(frozen=True)
class ReshapeArray(Transform):
    """One array in other shapes of as many elements; -1 in one place as in NumPy. Elements keep their order."""

    ours: tuple[int, ...]
    theirs: tuple[int, ...]

    def to_ours(self, arrays: Arrays) -> Arrays:
        return tuple(a.reshape(self.ours) for a in arrays)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return tuple(a.reshape(self.theirs) for a in arrays)

    def __str__(self) -> str:
        return f"reshaped {list(self.ours)}"


@dataclass(frozen=True)
class GateOrder(Transform):
    """The blocks of a recurrent layer's gates along an axis: block i of ours is block ``order[i]`` of theirs."""

    order: tuple[int, ...]
    axis: int = -1

    def to_ours(self, arrays: Arrays) -> Arrays:
        return tuple(self._reorder(a, self.order) for a in arrays)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        inverse = tuple(int(i) for i in np.argsort(self.order))
        return tuple(self._reorder(a, inverse) for a in arrays)

    def _reorder(self, array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
        if array.shape[self.axis] % len(order):
            raise TransformError(f"{array.shape[self.axis]} rows are not those of {len(order)} gates")
        parts = np.split(array, len(order), axis=self.axis)
        return np.concatenate([parts[i] for i in order], axis=self.axis)

    def __str__(self) -> str:
        return f"gates reordered {self.order}"


@dataclass(frozen=True)
class FlipArray(Transform):
    """The order of the elements reversed along axes, as the kernels of true convolutions have it."""

    axes: tuple[int, ...]

    def to_ours(self, arrays: Arrays) -> Arrays:
        return tuple(np.flip(a, self.axes) for a in arrays)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return self.to_ours(arrays)

    def __str__(self) -> str:
        return f"flipped along {self.axes}"


@dataclass(frozen=True)
class SplitArray(Transform):
    """One array of theirs along an axis into ours of these sizes."""

    sizes: tuple[int, ...]
    axis: int = 0

    def to_ours(self, arrays: Arrays) -> Arrays:
        (array,) = arrays
        if array.shape[self.axis] != sum(self.sizes):
            raise TransformError(f"{array.shape[self.axis]} along axis {self.axis}, expected {sum(self.sizes)}")
        return tuple(np.split(array, np.cumsum(self.sizes[:-1]), axis=self.axis))

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return (np.concatenate(arrays, axis=self.axis),)

    def __str__(self) -> str:
        return f"split into {len(self.sizes)}"


@dataclass(frozen=True)
class ConcatenateArrays(Transform):
    """Several arrays of theirs, of these sizes along an axis, as one of ours."""

    sizes: tuple[int, ...]
    axis: int = 0

    def to_ours(self, arrays: Arrays) -> Arrays:
        return SplitArray(self.sizes, self.axis).to_theirs(arrays)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return SplitArray(self.sizes, self.axis).to_ours(arrays)

    def __str__(self) -> str:
        return "concatenated"


@dataclass(frozen=True)
class StackArrays(Transform):
    """Several arrays of theirs along a new axis of one of ours."""

    axis: int = 0

    def to_ours(self, arrays: Arrays) -> Arrays:
        return (np.stack(arrays, axis=self.axis),)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        (array,) = arrays
        return tuple(np.moveaxis(array, self.axis, 0))

    def __str__(self) -> str:
        return "stacked"


@dataclass(frozen=True)
class SumArrays(Transform):
    """One array of ours is the sum of theirs (two biases); back, the first is ours and the others are zeros."""

    count: int = 2

    def to_ours(self, arrays: Arrays) -> Arrays:
        dtype = np.result_type(np.float32, *arrays)  # 16-bit parts are added in 32 bits
        total = arrays[0].astype(dtype)
        for array in arrays[1:]:
            total += array
        return (total,)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        (array,) = arrays
        return (array, *(np.zeros_like(array) for _ in range(self.count - 1)))

    def __str__(self) -> str:
        return f"sum of {self.count}"


@dataclass(frozen=True)
class NeutralArray(Transform):
    """An array of theirs that our layer does not have, because it is the neutral value (a shift of 0).

    A layout with it has no weights of ours. Raises TransformError for other values, which ours cannot hold.
    """

    value: float
    shape: tuple[int, ...]

    def to_ours(self, arrays: Arrays) -> Arrays:
        if not all(np.all(a == self.value) for a in arrays):
            raise TransformError(f"it is not {self.value:g} everywhere, and the layer has no such weight")
        return ()

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return (np.full(self.shape, self.value, np.float32),)


@dataclass(frozen=True)
class IgnoredArray(Transform):
    """A number of theirs that changes no output (``num_batches_tracked``): not read, and written as this integer."""

    value: int = 0

    def to_ours(self, arrays: Arrays) -> Arrays:
        return ()

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return (np.array(self.value, np.int64),)


@dataclass(frozen=True)
class EachArray(Transform):
    """A transform of its own for each array."""

    transforms: tuple[Transform, ...]

    def to_ours(self, arrays: Arrays) -> Arrays:
        return tuple(t.to_ours((a,))[0] for t, a in zip(self.transforms, arrays, strict=True))

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return tuple(t.to_theirs((a,))[0] for t, a in zip(self.transforms, arrays, strict=True))

    def __str__(self) -> str:
        return _join_descriptions(dict.fromkeys(self.transforms))


@dataclass(frozen=True)
class Chain(Transform):
    """Transforms one after the other, in the order from theirs to ours."""

    transforms: tuple[Transform, ...]

    def to_ours(self, arrays: Arrays) -> Arrays:
        for transform in self.transforms:
            arrays = transform.to_ours(arrays)
        return arrays

    def to_theirs(self, arrays: Arrays) -> Arrays:
        for transform in reversed(self.transforms):
            arrays = transform.to_theirs(arrays)
        return arrays

    def __str__(self) -> str:
        return _join_descriptions(self.transforms)


def _join_descriptions(transforms: Sequence[Transform] | dict[Transform, None]) -> str:
    return ", ".join(text for transform in transforms if (text := str(transform)))


def _with_rank(array: np.ndarray, rank: int) -> np.ndarray:
    """The array itself. Raises TransformError where it has another number of axes."""
    if array.ndim != rank:
        raise TransformError(f"it has {array.ndim} axes, expected {rank}")
    return array
