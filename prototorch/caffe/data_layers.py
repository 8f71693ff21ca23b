"""The data layers of a net: each fills its tops with the next batch of its source."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.caffe.blob import Blob
from prototorch.caffe.data import BlobSource, open_blob_source
from prototorch.caffe.data.opening import DATA_TYPES
from prototorch.caffe.text.message import Message

__all__ = ["DataLayer", "open_data_layers"]


class DataLayer:
    """A `HostLayer` without bottoms. source: of its batches."""

    def __init__(self, tops: Sequence[str], source: BlobSource):
        self.tops, self.source = tuple(tops), source

    def forward(self, bottoms: Sequence[Blob], tops: Sequence[Blob]) -> None:
        """Set the tops to the next batch; Raises DataError where it cannot be read."""
        batch = self.source.next_batch()
        for name, top in zip(self.tops, tops, strict=True):
            top.store("data", batch[name])

    def backward(self, tops: Sequence[Blob], needs: Sequence[bool], bottoms: Sequence[Blob]) -> None:
        """Data have no gradient."""


def open_data_layers(net: Message, phase: str, folders: Sequence[str], seed: int, dtype: str) -> dict[int, DataLayer]:
    """The data layers of a NetParameter, by position. Raises DataError as `open_blob_source` does."""
    sources: dict[int, DataLayer] = {}
    try:
        for index, layer in enumerate(net["layer"]):
            if layer["type"] in DATA_TYPES:
                own = layer["phase"] if layer.has("phase") else phase
                source = open_blob_source(layer, own, folders=folders, seed=seed + index, dtype=dtype)
                sources[index] = DataLayer(layer["top"], source)
    except BaseException:
        for other in sources.values():
            other.source.close()
        raise
    return sources
