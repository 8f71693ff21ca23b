"""Whether the arrays that were found for a layer are its weights: all there, and of the right shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from prototorch.model.loading.assign.checked import Assignment
from prototorch.model.loading.layout.layout_table import LayoutTable, WeightLayout
from prototorch.model.loading.layout.transforms import (
    Chain,
    EachArray,
    IgnoredArray,
    ReshapeArray,
    Transform,
    TransformError,
)
from prototorch.model.loading.net_layers import NetLayer
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["Mismatch", "Pairing", "fitted_transform", "pair_layer"]


@dataclass(frozen=True)
class Mismatch:
    """A weight whose array has another shape. shape: the array's. expected: what it would need to be in the file.
    current: the weight's in the net."""

    name: str
    array: str
    shape: tuple[int, ...]
    expected: tuple[int, ...]
    current: tuple[int, ...]


@dataclass
class Pairing:
    """What was found for a layer. arrays: the names of all arrays of the file that belong to it. rejected: arrays that
    it cannot have, with the reason."""

    assignments: list[Assignment] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    mismatched: list[Mismatch] = field(default_factory=list)
    arrays: set[str] = field(default_factory=set)
    rejected: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all weights are there, of the right shapes."""
        return not self.missing and not self.mismatched

    @property
    def rank(self) -> tuple[int, int]:
        """The larger the better: weights found, then weights of the right shapes."""
        return len(self.assignments) + len(self.mismatched), len(self.assignments)


def pair_layer(
    layer: NetLayer,
    table: LayoutTable,
    file: WeightFile,
    find: Callable[[Sequence[WeightLayout]], Mapping[str, str]],
) -> Pairing:
    """The best pairing of a layer over the forms in which the system has it. find: the names of arrays by the names
    that layouts give them."""
    best = Pairing(missing=layer.weight_names())
    for layouts in layer.variants(table):
        pairing = _pair(layer, layouts, file, find(layouts))
        if pairing.rank > best.rank:
            best = pairing
    return best


def _pair(layer: NetLayer, layouts: Sequence[WeightLayout], file: WeightFile, names: Mapping[str, str]) -> Pairing:
    pairing = Pairing()
    for layout in layouts:
        arrays = tuple(names[name] for name in layout.theirs if name in names)
        ours = tuple(f"{layer.key}/{name}" for name in layout.ours)
        if len(arrays) < len(layout.theirs):
            pairing.missing += ours
            continue
        pairing.arrays.update(arrays)
        if isinstance(layout.transform, IgnoredArray):
            continue
        expected = layout.their_shapes(layer.shapes)
        shapes = [file.arrays[name].shape for name in arrays]
        transform = fitted_transform(layout.transform, [file.arrays[name] for name in arrays], expected)
        if transform is None:
            wrong = next(i for i, name in enumerate(arrays) if not _fits(file.arrays[name], expected[i]))
            pairing.mismatched += [
                Mismatch(f"{layer.key}/{name}", arrays[wrong], shapes[wrong], expected[wrong], layer.shapes[name])
                for name in layout.ours
            ]
            if not ours:
                pairing.rejected[arrays[wrong]] = f"shape {list(shapes[wrong])}, expected {list(expected[wrong])}"
        elif ours:
            pairing.assignments.append(Assignment(ours, arrays, transform))
        else:
            _check_neutral(layout.transform, arrays, file, pairing)
    return pairing


def fitted_transform(
    transform: Transform, arrays: Sequence[StoredArray], expected: Sequence[tuple[int, ...]]
) -> Transform | None:
    """The transform for arrays of a file, which takes padding axes off first; None where a shape is another."""
    if not all(_fits(array, shape) for array, shape in zip(arrays, expected, strict=True)):
        return None
    if all(array.shape == shape for array, shape in zip(arrays, expected, strict=True)):
        return transform
    shapes = zip(arrays, expected, strict=True)
    return Chain((EachArray(tuple(ReshapeArray(shape, array.shape) for array, shape in shapes)), transform))


def _fits(array: StoredArray, expected: tuple[int, ...]) -> bool:
    if array.has_padded_shape and len(expected) < len(array.shape):
        expected = (1,) * (len(array.shape) - len(expected)) + expected
    return array.shape == expected


def _check_neutral(transform: Transform, arrays: tuple[str, ...], file: WeightFile, pairing: Pairing) -> None:
    """Reject arrays that only the other system has unless they are neutral."""
    try:
        transform.to_ours(tuple(file[name] for name in arrays))
    except TransformError as reason:
        pairing.rejected.update(dict.fromkeys(arrays, str(reason)))
