"""prototorch's own saved models: the weights by their names, mapped into memory after the digest was verified."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from prototorch.engine.storage.checkpoint import check_model_meta
from prototorch.engine.storage.container import has_container_header, map_contents
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["FORMAT"]

_PREFIX = "weights/"
_SKIPPED = {
    "optimizer": "the optimizer's state", "metrics": "metrics of an unfinished epoch", "state": "the callbacks' state"
}  # fmt: skip


_METADATA = ("model_text", "history")


def _recognize(file: UnknownFile) -> bool:
    return has_container_header(file.head)


def _open(path: str) -> WeightFile:
    contents = map_contents(path)
    check_model_meta(path, contents.meta)
    arrays = {
        name.removeprefix(_PREFIX): StoredArray(array.shape, array.dtype.name, partial(_identity, array))
        for name, array in contents.arrays.items()
        if name.startswith(_PREFIX)
    }
    groups = Counter(name.partition("/")[0] for name in contents.arrays if not name.startswith(_PREFIX))
    skipped = {group: _SKIPPED.get(group, f"{count} other arrays") for group, count in groups.items()}
    metadata = {name: value for name, value in contents.meta.items() if isinstance(value, str) and name in _METADATA}
    return WeightFile(path, FORMAT.name, "prototorch", arrays, metadata=metadata, skipped=skipped)


def _identity(array: np.ndarray) -> np.ndarray:
    return array


FORMAT = Format("prototorch", _recognize, _open, (".h5",))
