"""The matrix of an InfogainLoss, from the file that it names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.interop.layer_import import CaffeLayerImport
from prototorch.caffe.interop.wire import ProtobufError, decode
from prototorch.errors import DataError

__all__ = ["read_infogain_matrix"]

_BYTES_PER_ELEMENT, _OVERHEAD = 20, 4096  # of a BlobProto with data and diff in double precision


def read_infogain_matrix(site: CaffeLayerImport, classes: int) -> list[float]:
    """The elements of H, classes x classes, row by row, from the BlobProto in the file ``source``.

    Raises TextError where there is no such file, or another one.
    """
    param = site.layer["infogain_loss_param"]
    span = param.field_span("source")
    folders = () if span is None or not span.path else (os.path.dirname(span.path) or os.curdir,)
    try:
        path = FileSearch(folders).find(param["source"], "matrix of an InfogainLoss")
        values = _read_values(path, classes * classes * _BYTES_PER_ELEMENT + _OVERHEAD)
    except (DataError, ProtobufError, OSError) as error:
        site.fail(f"the matrix {param['source']!r}: {error}", param, "source")
    if values.size != classes * classes:
        site.fail(
            f"the matrix {param['source']!r} has {values.size} elements; {classes} classes need {classes} x {classes}",
            param,
            "source",
        )
    return [float(v) for v in values]


def _read_values(path: Path, max_bytes: int) -> np.ndarray:
    """The elements of a BlobProto in single precision, as Caffe holds them."""
    if not path.is_file():
        raise DataError("it is no regular file")
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DataError("it is larger than the matrix would be")
    blob = decode(data, "BlobProto")
    return np.asarray(blob["double_data"] if blob.has("double_data") else blob["data"], dtype=np.float64)
