"""Several HDF5 files of Keras as one: ``x.weights.json`` lists which of them have which groups."""

from __future__ import annotations

import os
from collections.abc import Sequence

from prototorch.engine.storage.combined_hdf5 import CombinedLayout
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout, read_layout
from prototorch.engine.storage.tree_paths import find_name_error
from prototorch.errors import ModelFileError

__all__ = ["read_sharded_layout"]

MAX_SHARDS = 1000


def read_sharded_layout(path: str, names: Sequence[str]) -> HDF5Layout:
    """The files of these names beside ``path`` as one. Raises ModelFileError for a name that is a path, and for an
    array that two of them have."""
    if len(names) > MAX_SHARDS:
        raise ModelFileError(f"{path}: more than {MAX_SHARDS:,} files")
    whole = CombinedLayout(path, {}, {}, (0,))
    for name in names:
        problem = find_name_error(name) or ("has a part with a '\\' or ':'" if {"\\", ":"} & set(name) else None)
        if problem or not name.endswith(".h5"):
            raise ModelFileError(f"{path}: the file name {name!r:.80} {problem or 'is not that of an HDF5 file'}")
        shard = os.path.join(os.path.dirname(path), name)
        if os.path.islink(shard):
            raise ModelFileError(f"{path}: {name} is a link to another file")
        layout = read_layout(shard)
        twice = next((dataset for dataset in layout.datasets if dataset in whole.datasets), None)
        if twice is not None:
            raise ModelFileError(f"{path}: two of its files have the array {twice!r:.100}")
        whole.add(layout)
    return whole
