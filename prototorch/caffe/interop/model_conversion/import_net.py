"""A file of Caffe with its weights as a model of ours: the net that a person would write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.model_conversion.conversion import native_net
from prototorch.caffe.interop.model_conversion.training import training_sections
from prototorch.caffe.interop.net_and_solver import read_net_and_solver
from prototorch.caffe.interop.net_text import translate_prediction
from prototorch.caffe.interop.prediction_layers import DATA_TYPES
from prototorch.caffe.interop.prediction_weights import match_prediction_net
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.net_state import filter_net
from prototorch.errors import UsageError
from prototorch.graph.probe import trace_net
from prototorch.interop.imported_model import ImportedModel

__all__ = ["import_caffe"]


def import_caffe(
    path: str | os.PathLike[str],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> ImportedModel:
    """The net of a Caffe file that predicts, as a person would write it; of a net with losses, and of a solver, how it
    is trained as well.

    input_shapes: of inputs whose sizes only data files tell, by blob, without axis 0. weights: a ``.caffemodel`` or
    ``.caffemodel.h5``. Raises FileError, TextError, WeightsError, UsageError.
    """
    message, solver, folders = read_net_and_solver(path)
    caffe, layers = translate_prediction(message, input_shapes, folders)
    arrays = None if weights is None else _read_weights(caffe, weights)
    net, native = native_net(caffe, arrays)
    names = {node: layer.name for layer in caffe.layers for node in layer.nodes if layer.name != node}
    train_data = [layer for layer in filter_net(message, "TRAIN")["layer"] if layer["type"] in DATA_TYPES]
    sections, notes = training_sections(caffe, layers, [*trace_net(net, 1).weights], solver, train_data)
    notes += _training_notes(message)
    if arrays is not None:
        notes.insert(0, f"weights from {os.path.basename(os.fspath(weights or ''))}")
    return ImportedModel(net, native or {}, tuple(notes), names, sections=tuple(sections))


def _training_notes(message: Message) -> list[str]:
    """A sentence for each layer that only the phase TRAIN has: what is converted is the net of the phase TEST."""
    state = message["state"]
    train, test = (filter_net(message, phase, state["level"], state["stage"])["layer"] for phase in ("TRAIN", "TEST"))
    test_names = {layer["name"] for layer in test}
    return [
        f"left out: the layer {layer['name']} ({layer['type']}), which the phase TRAIN alone has"
        for layer in train
        if layer["name"] not in test_names and layer["type"] not in DATA_TYPES
    ]


def _read_weights(caffe: CaffeNet, path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    match = match_prediction_net(caffe, path)
    if match is None:
        raise UsageError(f"{os.fspath(path)}: is no file of Caffe's weights (.caffemodel, .caffemodel.h5)")
    return dict(match.arrays())
