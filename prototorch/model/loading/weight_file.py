"""A file of weights, whatever wrote it: arrays by name, read when they are asked for.

Each format is a module in `prototorch.interop.readers` that recognizes its files by their content and opens them as a
`WeightFile`. Nothing in a file is executed, and no memory is allocated that its bytes do not stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.errors import ModelFileError

__all__ = ["StoredArray", "StoredLayer", "WeightFile", "check_sharing"]

_MAX_SHARING = 32  # bytes of arrays for each byte of the file
_ALWAYS_SHARED = 256 << 20  # bytes of arrays that any file may have


def check_sharing(needed: int, file_size: int, path: str) -> None:
    """Raise ModelFileError where arrays that share their elements need many times the bytes that the file has.

    needed, file_size: in bytes. path: printable.
    """
    if needed > max(_MAX_SHARING * file_size, _ALWAYS_SHARED):
        raise ModelFileError(
            f"{path}: its arrays share their elements: they need {needed:,} bytes or more, {file_size:,} are stored; "
            f"read are files with at most {_MAX_SHARING} times their own size"
        )


@dataclass(frozen=True)
class StoredArray:
    """An array in a file. dtype: as the file names it; ``bfloat16`` is read as float32, which holds it exactly.

    read: the array, read-only, in the machine's byte order; a memory map of the file where its format allows.
    storage: equal for arrays that share their elements in the file; None where the format knows no sharing.
    has_padded_shape: whether the shape has ones in front that the array itself may not have (old files of Caffe, in
    which every array has four axes).
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]
    storage: Any = None
    has_padded_shape: bool = False


@dataclass(frozen=True)
class StoredLayer:
    """A layer as a file tells it, where its format does (Keras, Caffe, NNabla).

    weights: the names of its arrays in `WeightFile`, in the layer's own order. kind: its class in that system, "" where
    the file does not tell it. group: the path of its object in a ``.weights.h5`` of Keras 3, "" where none is known.
    """

    name: str
    kind: str
    weights: tuple[str, ...]
    group: str = ""


@dataclass(frozen=True)
class WeightFile(Mapping[str, np.ndarray]):
    """The weights of a file by name, in its order; ``file[name]`` reads one.

    path: the file. format: of the container ("PyTorch zip", "safetensors"). system: whose names and layouts the arrays
    have: "torch", "keras", "onnx", "nnabla", "caffe", "prototorch", or "" where the file does not tell.
    layers: in the file's order, where it tells them. config: a whole model's declaration (Keras' config), where the
    file has one. metadata: what else it tells as text. skipped: what it holds besides weights, with the reason
    ("optimizer": "the optimizer's state").
    """

    path: str
    format: str
    system: str
    arrays: Mapping[str, StoredArray]
    layers: tuple[StoredLayer, ...] = ()
    config: Any = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)
