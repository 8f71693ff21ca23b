"""Caffe's nets, as a person would write them in our language, with the weights of a caffemodel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prototorch.caffe.interop.model_conversion.import_net import import_caffe
from prototorch.caffe.interop.shape_settings import shape_settings
from prototorch.caffe.text.detect_caffe import find_caffe_kind
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.importers.model_format import ModelFormat
from prototorch.model.loading.read.file_format import UnknownFile
from prototorch.text.reader import read_file

__all__ = ["IMPORTER"]

_ENDINGS = (".prototxt", ".proto", ".pt", ".pbtxt", ".txt")


def _recognize(file: UnknownFile) -> bool:
    is_text = file.ending in _ENDINGS and b"\0" not in file.head
    return is_text and find_caffe_kind(read_file(file.path)) is not None


def _load(
    path: str, input_shapes: Mapping[str, Sequence[int]] | None = None, weights: str | None = None
) -> ImportedModel:
    return import_caffe(path, input_shapes, weights)


IMPORTER = ModelFormat("caffe", "Caffe", _recognize, _load, ("input_shapes", "weights"), shape_settings)
