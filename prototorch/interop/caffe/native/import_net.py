"""A file of Caffe with its weights as a model of ours: the net that a person would write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.data.caffe.file_search import FileSearch
from prototorch.errors import UsageError
from prototorch.graph.probe import trace_net
from prototorch.interop.caffe.caffe_net import CaffeNet
from prototorch.interop.caffe.named_net import read_named_net
from prototorch.interop.caffe.native.conversion import native_net
from prototorch.interop.caffe.native.training import training_sections
from prototorch.interop.caffe.net_text import translate_prediction
from prototorch.interop.caffe.prediction_layers import DATA_TYPES
from prototorch.interop.caffe.prediction_weights import match_prediction_net
from prototorch.interop.caffe.solver_fields import check_solver
from prototorch.interop.imported_model import ImportedModel
from prototorch.text.caffe.message import Message
from prototorch.text.caffe.mistakes import fail_at
from prototorch.text.caffe.net_state import filter_net
from prototorch.text.caffe.reader import read_net_file, read_solver_file
from prototorch.text.caffe.recognition import find_caffe_kind
from prototorch.text.caffe.upgrade import upgrade_net
from prototorch.text.diagnostics import located
from prototorch.text.reader import read_file

__all__ = ["import_caffe"]

_MAX_PARENTS = 4  # folders above the solver's in which its net is looked for


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
    message, solver, folders = _read(path)
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


def _read(path: str | os.PathLike[str]) -> tuple[Message, Message | None, tuple[str, ...]]:
    """The net of a file, its solver where the file is one, and the folders in which its files are looked for."""
    folder = os.path.dirname(os.path.abspath(path))
    if find_caffe_kind(read_file(path)) != "solver":
        return read_net_file(path), None, (folder,)
    solver = read_solver_file(path)
    check_solver(solver)
    inline = next((name for name in ("net_param", "train_net_param") if solver.has(name)), None)
    if inline is not None:
        return _with_state(upgrade_net(solver[inline]), solver), solver, (folder,)
    name = next((name for name in ("net", "train_net") if solver.has(name)), None)
    if name is None:
        fail_at("The solver names no net: it needs one of net, train_net, net_param, train_net_param.", solver.span)
    with located(solver.field_span(name)):
        found = FileSearch((folder, *_parents(folder))).find(solver[name], "net")
    return (
        _with_state(read_named_net(found, solver[name], solver.field_span(name)), solver),
        solver,
        (str(found.parent), folder),
    )


def _training_notes(message: Message) -> list[str]:
    """A sentence for each layer that only the phase TRAIN has: what is converted is the net of the phase TEST."""
    state = message["state"]
    train, test = (filter_net(message, phase, state["level"], state["stage"])["layer"] for phase in ("TRAIN", "TEST"))
    kept = {layer["name"] for layer in test}
    return [
        f"left out: the layer {layer['name']} ({layer['type']}), which the phase TRAIN alone has"
        for layer in train if layer["name"] not in kept and layer["type"] not in DATA_TYPES
    ]  # fmt: skip


def _with_state(net: Message, solver: Message) -> Message:
    """A net with the state of the solver's first test."""
    if solver["test_state"]:
        net["state"] = solver["test_state"][0]
    return net


def _parents(folder: str) -> list[str]:
    """The folders above one: Caffe's solvers name their nets from the folder that Caffe was started in."""
    parents: list[str] = []
    while os.path.dirname(folder) != folder and len(parents) < _MAX_PARENTS:
        folder = os.path.dirname(folder)
        parents.append(folder)
    return parents


def _read_weights(caffe: CaffeNet, path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    match = match_prediction_net(caffe, path)
    if match is None:
        raise UsageError(f"{os.fspath(path)}: is no file of Caffe's weights (.caffemodel, .caffemodel.h5)")
    return dict(match.arrays())
