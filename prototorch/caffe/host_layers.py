"""Layers that run between the plans of a net, because no plan can compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from prototorch.caffe.blob import Blob
from prototorch.caffe.interop.caffe_net import CaffeLayer
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.hdf5_image import encode_image
from prototorch.train.output_paths import resolve_inside

__all__ = ["FilterLayer", "HDF5OutputLayer", "HostLayer"]


class HostLayer(Protocol):
    """Fills its tops, and gives the gradients of its bottoms."""

    def forward(self, bottoms: Sequence[Blob], tops: Sequence[Blob]) -> None:
        """Set the data of the tops, whose shapes it may change."""

    def backward(self, tops: Sequence[Blob], needs: Sequence[bool], bottoms: Sequence[Blob]) -> None:
        """Set the diffs of the bottoms that need one, from those of the tops."""


class FilterLayer:
    """The samples of the first bottoms for which the last bottom is not 0."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, np.intp)

    def forward(self, bottoms: Sequence[Blob], tops: Sequence[Blob]) -> None:
        """Copy the samples that are selected; there may be none."""
        *inputs, selector = bottoms
        self._rows = np.flatnonzero(selector.read("data").reshape(-1))
        for bottom, top in zip(inputs, tops, strict=True):
            top.store("data", bottom.read("data")[self._rows])

    def backward(self, tops: Sequence[Blob], needs: Sequence[bool], bottoms: Sequence[Blob]) -> None:
        """The gradients of the selected samples; those of the others are 0."""
        for top, bottom, needed in zip(tops, bottoms, needs, strict=False):
            if needed:
                gradient = np.zeros(bottom.shape, bottom.dtype)
                gradient[self._rows] = top.read("diff")
                bottom.store("diff", gradient)


class HDF5OutputLayer:
    """Writes its bottoms as the data sets "data" and "label" of a file inside a folder.

    The file is written whole at each forward pass. Raises UsageError where its path leads out of the folder.
    """

    def __init__(self, layer: CaffeLayer, folder: str):
        self.path = resolve_inside(layer.message["hdf5_output_param"]["file_name"], folder)

    def forward(self, bottoms: Sequence[Blob], tops: Sequence[Blob]) -> None:
        """Write the file: both data sets have four axes, as Caffe writes them."""
        sizes = [(blob.num, blob.channels, blob.height, blob.width) for blob in bottoms]
        arrays = [blob.read("data").reshape(size) for blob, size in zip(bottoms, sizes, strict=True)]
        write_bytes(self.path, encode_image(zip((("data",), ("label",)), arrays, strict=True)))

    def backward(self, tops: Sequence[Blob], needs: Sequence[bool], bottoms: Sequence[Blob]) -> None:
        """Nothing depends on it: the gradients of its bottoms are not set, as in Caffe."""
