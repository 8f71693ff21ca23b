"""The report of weights that were loaded from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["LoadReport"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LoadReport:
    """The result of loading weights: names of weights; for mismatches also the shapes in the file and in the model.

    system: whose layouts the file has ("torch", "keras"; "" for our own). transposed: what changed arrays on their way,
    by the names of the weights. file_shapes: for mismatches, the name of the array in the file and the shape that it
    would need there. excluded: weights that ``except`` left as they were. notes: what was assumed or is suspicious, a
    sentence each.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[tuple[str, Shape, Shape], ...]
    system: str = ""
    transposed: Mapping[str, str] = field(default_factory=dict)
    file_shapes: Mapping[str, tuple[str, Shape]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.format("in the file")

    def format(self, where: str) -> str:
        """The report as text; ``where`` names the source of the new weights."""
        lines = [f"{len(self.loaded)} weights loaded"]
        if self.transposed:
            kinds = ", ".join(dict.fromkeys(self.transposed.values()))
            lines[0] += f", {len(self.transposed)} of them changed from the layouts of {self.system} ({kinds})"
        for problem, names in ((f"missing {where}", self.missing), ("not in the model", self.unexpected)):
            if names:
                lines.append(f"{len(names)} {problem}: {_abbreviate(names)}")
        for name, new, current in self.mismatched[:10]:
            array, expected = self.file_shapes.get(name, (name, current))
            needed = "" if array == name else f" ({array}; the model needs {list(expected)} there)"
            lines.append(f"{name}: {list(new)} {where}{needed}, {list(current)} in the model")
        if len(self.mismatched) > 10:
            lines.append(f"and {len(self.mismatched) - 10} more of other shapes")
        if self.excluded:
            lines.append(f"{len(self.excluded)} left as they are: {_abbreviate(self.excluded)}")
        return "\n".join([*lines, *self.notes])


def _abbreviate(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
