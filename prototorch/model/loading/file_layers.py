"""The layers of a weight file, as matching sees them: those that it tells, or those that its names show."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from prototorch.model.loading.layout.layout_table import LayoutTable, WeightLayout
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FileLayer", "FileNames", "Parts", "find_file_layers", "split_name"]

Parts = tuple[str, ...]


@dataclass(frozen=True)
class FileLayer:
    """A layer of a file. kind: its class, "" where the file does not tell it. arrays: the names of its arrays in the
    file by their names below the layer. is_ordered: whether their order is that of the layer's own weights."""

    name: str
    kind: str
    arrays: Mapping[Parts, str]
    is_ordered: bool = False

    def find(self, layouts: Sequence[WeightLayout]) -> dict[str, str]:
        """The arrays by the names that the layouts give them; what is not there is left out."""
        theirs = [name for layout in layouts for name in layout.theirs]
        names_of_arrays = {name: self.arrays[key] for name in theirs if (key := split_name(name)) in self.arrays}
        if self.is_ordered and len(names_of_arrays) < len(theirs) == len(self.arrays):
            return dict(zip(theirs, self.arrays.values(), strict=True))
        return names_of_arrays


class FileNames:
    """The arrays of a file by the parts of their names, after `rename`; layers are looked up by their parts, too.

    A name that was renamed takes the place of one that was not. clashes: other pairs whose names have the same parts.
    parts_of_names: of each array's name, see `LayoutTable.split_name`. weights: new names that are a weight's in the
    net, not the other system's; `rename` may add to them.
    """

    def __init__(
        self,
        file: WeightFile,
        parts_of_names: Mapping[str, Parts],
        rename: Callable[[Parts], Parts],
        weights: Container[Parts] = (),
    ):
        self._weights = weights
        self.clashes: list[tuple[str, str]] = []
        self._arrays: dict[Parts, str] = {}
        unchanged: list[tuple[Parts, str]] = []
        for name, parts in parts_of_names.items():
            new = rename(parts)
            if new == parts:
                unchanged.append((parts, name))
            elif (other := self._arrays.setdefault(new, name)) != name:
                self.clashes.append((other, name))
        original_parts = set(self._arrays)
        for parts, name in unchanged:
            if (other := self._arrays.setdefault(parts, name)) != name and parts not in original_parts:
                self.clashes.append((other, name))
        self._layers = {rename(split_name(layer.name)): layer for layer in _told_layers(file)}

    def find(self, layer: Parts, layouts: Sequence[WeightLayout]) -> dict[str, str]:
        """The arrays of a layer of this name, by the names that the layouts give them; others are left out.

        A single weight that a rule maps to the net's own name is found by this name.
        """
        arrays_by_name = {}
        for layout in layouts:
            for name in layout.theirs:
                array = self._arrays.get((*layer, *split_name(name)))
                if array is None and len(layout.ours) == len(layout.theirs) == 1:
                    own = (*layer, *split_name(layout.ours[0]))
                    array = self._arrays.get(own) if own in self._weights else None
                if array is not None:
                    arrays_by_name[name] = array
        file_layer = self._layers.get(layer)
        if file_layer is not None and len(arrays_by_name) < sum(len(layout.theirs) for layout in layouts):
            return file_layer.find(layouts) or arrays_by_name
        return arrays_by_name


def split_name(name: str) -> Parts:
    """The parts of a name between ``.`` or ``/``; none for ""."""
    return tuple(re.split(r"[./]", name)) if name else ()


def find_file_layers(file: WeightFile, table: LayoutTable, submodules: Sequence[Parts]) -> list[FileLayer]:
    """The layers of a file in its order. submodules: names of modules that are part of the layer above them
    (``out_proj``), where that has arrays of its own or several of them."""
    if file.layers:
        return _told_layers(file)
    groups: dict[Parts, dict[Parts, str]] = {}
    for name in file.arrays:
        parts = table.split_name(name)
        groups.setdefault(parts[:-1], {})[parts[-1:]] = name
    arrays_of_layers: dict[Parts, dict[Parts, str]] = {}
    for parts, arrays in groups.items():
        tail = next((tail for tail in submodules if parts[-len(tail) :] == tail), ())
        above = parts[: len(parts) - len(tail)]
        if tail and not (above in groups or sum((*above, *t) in groups for t in submodules) > 1):
            above, tail = parts, ()
        arrays_of_layers.setdefault(above, {}).update({(*tail, *local): name for local, name in arrays.items()})
    return [FileLayer(".".join(parts), "", arrays) for parts, arrays in arrays_of_layers.items()]


def _told_layers(file: WeightFile) -> list[FileLayer]:
    result = []
    for layer in file.layers:
        arrays = {split_name(name.removeprefix(f"{layer.name}/")): name for name in layer.weights}
        result.append(FileLayer(layer.name, layer.kind, arrays, is_ordered=True))
    return result
