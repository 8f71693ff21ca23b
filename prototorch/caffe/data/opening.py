"""The source of a data layer of a Caffe net, by its type."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prototorch.caffe.data.blob_source import BlobSource
from prototorch.caffe.data.database_data import DatabaseSource
from prototorch.caffe.data.databases import open_database
from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.data.hdf5_data import HDF5ListSource
from prototorch.caffe.data.image_data import ImageListSource
from prototorch.caffe.data.memory_data import MemorySource
from prototorch.caffe.data.transform import ImageTransform
from prototorch.caffe.data.window_data import WindowSource
from prototorch.caffe.text.message import Message
from prototorch.data.checks import DataWarning
from prototorch.data.read_limits import ReadLimits
from prototorch.errors import DataError
from prototorch.text.diagnostics import located

__all__ = ["DATA_TYPES", "open_blob_source"]


@dataclass(frozen=True)
class _Request:
    """A layer whose source is opened; the fields are the arguments of `open_blob_source`."""

    layer: Message
    phase: str
    search: FileSearch
    seed: int
    dtype: str

    @property
    def tops(self) -> list[str]:
        return list(self.layer["top"])

    @property
    def prefetch(self) -> int:
        """Batches that are made ahead: ``data_param { prefetch }``, for all data layers as in Caffe."""
        return max(1, int(self.layer["data_param"]["prefetch"]))

    def transform(self) -> ImageTransform:
        """What the layer's ``transform_param`` says."""
        return ImageTransform(self.layer["transform_param"], self.phase, self.seed, self.search, self.dtype)


def open_blob_source(
    layer: Message,
    phase: str,
    *,
    folders: Sequence[str | os.PathLike[str]] = (),
    limits: ReadLimits | None = None,
    seed: int | None = None,
    dtype: str = "float32",
) -> BlobSource:
    """Open the data of a data layer.

    Args:
        layer: a LayerParameter in its newest form, of one of the types `DATA_TYPES`.
        phase: "TRAIN" (crops are random) or "TEST".
        folders: those of the texts, in which files are looked for behind the working directory.
        limits: the folders in which all files that the layer and its lists name must lie; None: no limit.
        seed: of shuffling, skipping, crops and mirroring: a source with the same seed gives the same batches. None:
            drawn from the system, as Caffe does without ``random_seed``.
        dtype: "float32" or "float64", of the batches.

    Raises:
        DataError: a file is missing, damaged or does not fit the layer; a field is out of range. The message has the
            place of the layer in its text.
        UsageError: a file lies outside of the limits.
    """
    open_source = _SOURCES[layer["type"]]
    search = FileSearch(tuple(os.fspath(folder) for folder in folders), limits)
    value = int.from_bytes(os.urandom(8), "little") if seed is None else seed
    with located(layer.span):
        try:
            return open_source(_Request(layer, phase, search, value, dtype))
        except DataError as error:
            raise DataError(f"layer {layer['name']!r} ({layer['type']}): {error}") from None


def _open_hdf5_data(request: _Request) -> BlobSource:
    if request.layer.has("transform_param"):
        raise DataError("it has a transform_param, but HDF5Data does not transform its data; write them transformed")
    param = request.layer["hdf5_data_param"]
    return HDF5ListSource(
        param["source"],
        request.tops,
        param["batch_size"],
        shuffle=param["shuffle"],
        seed=request.seed,
        search=request.search,
        dtype=request.dtype,
    )


def _warn_of_unused(layer: Message, param_name: str, names: Sequence[str], better: str = "transform_param") -> None:
    """Warn of fields that Caffe reads from a file but does not use, in layers of the newest form."""
    unused = [name for name in names if layer[param_name].has(name)]
    if unused:
        place = f"{layer.span}: " if layer.span is not None else ""
        warnings.warn(
            f"{place}layer {layer['name']!r} ({layer['type']}): {', '.join(unused)} in {param_name} has no effect, as "
            f"in Caffe; what counts stands in {better}",
            DataWarning,
            stacklevel=3,
        )


_LEGACY_TRANSFORM = ("scale", "mean_file", "crop_size", "mirror")


def _open_data(request: _Request) -> BlobSource:
    param = request.layer["data_param"]
    _warn_of_unused(request.layer, "data_param", (*_LEGACY_TRANSFORM, "force_encoded_color"))
    transform = request.transform()
    path = request.search.find(param["source"], "database")
    database = open_database(path, request.search)
    try:
        return DatabaseSource(
            database, request.tops, param["batch_size"], transform, param["rand_skip"], request.prefetch
        )
    except BaseException:
        database.close()
        raise


def _open_image_data(request: _Request) -> BlobSource:
    _warn_of_unused(request.layer, "image_data_param", _LEGACY_TRANSFORM)
    return ImageListSource(
        request.layer["image_data_param"], request.tops, request.transform(), request.search, request.prefetch
    )


def _open_window_data(request: _Request) -> BlobSource:
    layer = request.layer
    _warn_of_unused(layer, "window_data_param", _LEGACY_TRANSFORM[1:])
    _warn_of_unused(layer, "transform_param", ("scale",), "window_data_param")
    return WindowSource(
        layer["window_data_param"],
        layer["transform_param"],
        request.tops,
        request.seed,
        request.search,
        request.dtype,
        request.prefetch,
    )


def _open_memory_data(request: _Request) -> BlobSource:
    return MemorySource(request.layer["memory_data_param"], request.tops, request.transform())


_SOURCES: dict[str, Callable[[_Request], BlobSource]] = {
    "Data": _open_data,
    "HDF5Data": _open_hdf5_data,
    "ImageData": _open_image_data,
    "MemoryData": _open_memory_data,
    "WindowData": _open_window_data,
}
#: The types of layers that have a source.
DATA_TYPES = frozenset(_SOURCES)
