"""A file of Caffe with its weights as a model of ours: the net that a person would write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.errors import UsageError
from prototorch.interop.caffe.caffe_net import CaffeNet
from prototorch.interop.caffe.native.conversion import native_net
from prototorch.interop.caffe.net_text import read_prediction_net
from prototorch.interop.caffe.prediction_weights import match_prediction_net
from prototorch.interop.imported_model import ImportedModel

__all__ = ["import_caffe"]


def import_caffe(
    path: str | os.PathLike[str],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> ImportedModel:
    """The net of a Caffe file that predicts, as a person would write it.

    input_shapes: of inputs whose sizes only data files tell, by blob, without axis 0. weights: a ``.caffemodel`` or
    ``.caffemodel.h5``. Raises FileError, TextError, WeightsError, UsageError.
    """
    caffe = read_prediction_net(path, input_shapes)
    arrays = None if weights is None else _read_weights(caffe, weights)
    net, native = native_net(caffe, arrays)
    names = {node: layer.name for layer in caffe.layers for node in layer.nodes if layer.name != node}
    notes = [] if arrays is None else [f"weights from {os.path.basename(os.fspath(weights or ''))}"]
    return ImportedModel(net, native or {}, tuple(notes), names)


def _read_weights(caffe: CaffeNet, path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    match = match_prediction_net(caffe, path)
    if match is None:
        raise UsageError(f"{os.fspath(path)}: is no file of Caffe's weights (.caffemodel, .caffemodel.h5)")
    return dict(match.arrays())
