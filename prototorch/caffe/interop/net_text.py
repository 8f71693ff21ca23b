"""A Caffe net's file as an expanded document of ours: the exact net that predicts, as `load_model` reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.net_and_solver import read_net_and_solver
from prototorch.caffe.interop.prediction_layers import PredictionLayers, prediction_layers
from prototorch.caffe.interop.shape_settings import input_sizes, parse_shape_settings
from prototorch.caffe.interop.translate import translate_net
from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.detect_caffe import find_caffe_kind
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.reader import read_net_file
from prototorch.errors import FileError, UsageError
from prototorch.graph.net_writer import net_fields
from prototorch.text.diagnostics import Report
from prototorch.text.overrides import apply_overrides
from prototorch.text.reader import read_file
from prototorch.text.syntax_tree import Document

__all__ = ["caffe_document", "read_prediction_net", "translate_prediction"]

_HINTS = {"solver": "`prototorch run` and `prototorch convert` take it; load_model takes the net that it names"}


def caffe_document(
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    report: Report | None = None,
    allow_solver: bool = False,
) -> tuple[Document, CaffeNet] | None:
    """The net that predicts of a Caffe file (see `read_prediction_net`) as an expanded document, and the net itself;
    None for a file that is no text of Caffe.

    params: ``input_shapes``, see there. settings: as ``--set``: ``data.shape=[3,227,227]`` for an input of unknown
    size, else of the layers and blocks of the document. report: takes mistakes of the settings. allow_solver:
    a solver stands for the net that it names; else it is refused. Raises FileError for a
    solver, TextError with the mistakes of the text, UsageError for another param.
    """
    name = os.fspath(path)
    kind = find_caffe_kind(read_file(name))
    if kind is None:
        return None
    if kind == "solver" and not allow_solver:
        raise FileError(f"{name}: is a solver of Caffe, not a net: {_HINTS[kind]}")
    remaining = dict(params or {})
    shapes = {blob: tuple(shape) for blob, shape in dict(remaining.pop("input_shapes", {})).items()}
    if remaining:
        raise UsageError(f"{name}: a net of Caffe has no param {next(iter(remaining))!r}; it takes input_shapes")
    stated, field_settings = parse_shape_settings(settings)
    shapes |= stated
    message, _, folders = read_net_and_solver(name)
    caffe = translate_prediction(message, shapes, folders)[0]
    document = Document(tuple(net_fields(caffe.net)))
    return apply_overrides(document, field_settings, Report() if report is None else report), caffe


def read_prediction_net(
    path: str | os.PathLike[str], input_shapes: Mapping[str, Sequence[int]] | None = None
) -> CaffeNet:
    """The net of a Caffe file for prediction: phase TEST, data layers as inputs, without losses and accuracies.

    input_shapes: of blobs that are inputs, by blob, without axis 0, the batch; needed where only data files tell them,
    and these are not there. Raises FileError, TextError, UsageError.
    """
    folder = os.path.dirname(os.path.abspath(path))
    return translate_prediction(read_net_file(path), input_shapes, (folder,))[0]


def translate_prediction(
    message: Message, input_shapes: Mapping[str, Sequence[int]] | None, folders: Sequence[str]
) -> tuple[CaffeNet, PredictionLayers]:
    """As `read_prediction_net`, of a NetParameter in its newest form, whose data files are looked for in ``folders``,
    too; and the layers that were taken."""
    shapes = {blob: (1, *input_sizes(blob, shape)) for blob, shape in (input_shapes or {}).items()}
    layers = prediction_layers(message, shapes, folders)
    caffe = translate_net(layers.message, "TEST", shapes)
    for layer in caffe.layers:
        for blob, value in zip(layer.tops, layer.top_values, strict=False):
            if value in caffe.inputs.values() and 0 in caffe.shapes[value][1:]:
                fail_at(
                    f"layer {layer.name!r} ({layer.type}): the input {blob!r} has the shape "
                    f"{list(caffe.shapes[value])}: a net that predicts has sizes of at least 1 behind the batch. "
                    f"Give them: --set {blob}.shape=[...]",
                    layer.message.span,
                )
    outputs = tuple(caffe.blobs[blob] for blob in layers.outputs)
    return replace(caffe, net=replace(caffe.net, outputs=outputs), outputs=layers.outputs), layers
