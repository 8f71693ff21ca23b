"""The datasets of several HDF5 files, or of one under another path, as those of one file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prototorch.engine.storage.foreign_hdf5 import HDF5Layout

__all__ = ["CombinedLayout"]


@dataclass(frozen=True)
class CombinedLayout(HDF5Layout):
    """A layout whose arrays are read from others. owners: by the path of each dataset the layout that has it."""

    owners: dict[str, HDF5Layout] = field(default_factory=dict)

    def read(self, name: str) -> np.ndarray:
        return self.owners[name].read(name)

    def add(self, layout: HDF5Layout) -> None:
        """Take in the datasets and attributes of another layout."""
        self.datasets.update(layout.datasets)
        self.owners.update(dict.fromkeys(layout.datasets, layout))
        for group, attributes in layout.attributes.items():
            self.attributes.setdefault(group, {}).update(attributes)
