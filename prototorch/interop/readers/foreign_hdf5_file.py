"""HDF5 files of other systems: Keras (``.h5``, ``.hdf5``, ``.weights.h5``), Caffe (``.caffemodel.h5``), NNabla, and
trees of arrays of anybody.

The HDF5 library sees such a file in a sandboxed process alone (`prototorch.engine.storage.foreign_hdf5`).
"""

from __future__ import annotations

from prototorch.base.index import load_extensions
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout, read_layout
from prototorch.errors import ModelFileError
from prototorch.interop.keras.stored_arrays import stored_array
from prototorch.interop.readers.hdf5_variant import HDF5Variant
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["FORMAT", "plain_weight_file"]

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def _recognize(file: UnknownFile) -> bool:
    return file.head.startswith(SIGNATURE)


def _open(path: str) -> WeightFile:
    layout = read_layout(path)
    for variant in load_extensions(HDF5Variant):
        if variant.recognize(layout):
            file: WeightFile = variant.open(layout)
            return file
    return plain_weight_file(layout)


def plain_weight_file(layout: HDF5Layout) -> WeightFile:
    """The arrays of a file that is not Keras', by their paths; NNabla's in the order in which they were registered.

    Raises ModelFileError for a file without arrays.
    """
    if not layout.datasets:
        raise ModelFileError(f"{layout.path}: an HDF5 file without arrays")
    names = list(layout.datasets)
    is_nnabla = all("need_grad" in layout.attributes.get(name, {}) for name in names)
    if is_nnabla:
        names.sort(key=lambda name: _index(layout, name))
    arrays: dict[str, StoredArray] = {name: stored_array(layout, name) for name in names}
    if is_nnabla:
        return WeightFile(layout.path, "NNabla parameters", "nnabla", arrays)
    return WeightFile(layout.path, FORMAT.name, "", arrays)


def _index(layout: HDF5Layout, name: str) -> int:
    index = layout.attributes[name].get("index")
    return index if isinstance(index, int) else 0


FORMAT = Format("HDF5", _recognize, _open, (".h5", ".hdf5"))
