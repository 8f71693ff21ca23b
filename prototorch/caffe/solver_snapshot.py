"""Snapshots of a solver: the weights of its net, and its own state, in Caffe's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.interop.caffe_net import CaffeParam
from prototorch.caffe.interop.net_weights import copy_weights
from prototorch.caffe.interop.snapshot import write_caffemodel
from prototorch.caffe.interop.solver_fields import HISTORY_SLOTS
from prototorch.caffe.interop.solver_state import SolverState, read_solver_state, write_solver_state
from prototorch.caffe.net import Net
from prototorch.caffe.param_blob import ParamBlob
from prototorch.caffe.python_params import with_python_params
from prototorch.caffe.solver_position import SolverPosition, write_position
from prototorch.caffe.solver_step import owned_params
from prototorch.engine.storage.atomic_write import check_writable
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import DataError, ModelFileError, UsageError, WeightsError
from prototorch.model.loading.read.read_file import read_weights
from prototorch.runtime.variables import SLOT_PREFIX

__all__ = ["check_space", "load_weights", "read_history", "restore_snapshot", "snapshot_names", "write_snapshot"]


def snapshot_names(prefix: str, iteration: int, snapshot_format: str) -> tuple[str, str]:
    """The names of the files of a snapshot: of the weights and of the state. snapshot_format: a SnapshotFormat."""
    ending = ".h5" if snapshot_format == "HDF5" else ""
    stem = f"{prefix}_iter_{iteration}"
    return f"{stem}.caffemodel{ending}", f"{stem}.solverstate{ending}"


def write_snapshot(
    net: Net,
    kind: str,
    paths: tuple[str, str],
    iteration: int,
    current_step: int,
    with_diff: bool = False,
    position: SolverPosition | None = None,
) -> None:
    """Write weights and state, each whole or not at all; the state last. paths: of the two, as Caffe is to find them.

    kind: the solver's type. with_diff: write the gradients (``snapshot_diff``), too. position: in the data, written
    beside the state.
    """
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_caffemodel(paths[0], *net.stored_params(), _gradients(net) if with_diff else None)
    state = SolverState(iteration, paths[0], current_step, tuple(read_history(net, kind)))
    if position is not None:
        write_position(paths[1], state, position)
    write_solver_state(paths[1], state)


def check_space(net: Net, kind: str, folder: str, count: int, with_diff: bool = False) -> None:
    """Check, before the first iteration, that a snapshot can be written into a folder. Raises SnapshotError; warns
    where ``count`` of them do not fit. with_diff: as of `write_snapshot`."""
    itemsize = np.dtype(net.backend.precision.float_dtype).itemsize
    copies = 1 + len(HISTORY_SLOTS[kind]) + with_diff
    size = copies * itemsize * sum(prod(param.shape) for param in owned_params(net.caffe_net))
    check_writable(folder, size, 1, count)


def _gradients(net: Net) -> Mapping[str, np.ndarray]:
    """The diffs of the parameters as gradients of our weights, with those of Python layers' blobs."""
    arrays_of_weights: dict[str, np.ndarray] = {}
    for blobs in net.params.values():
        for blob in blobs:
            if isinstance(blob, ParamBlob) and blob.param.owner is None:
                arrays = blob.param.layout.transform.to_ours((blob.diff,))
                arrays_of_weights.update(zip(blob.param.weights, arrays, strict=True))
    return with_python_params(net.caffe_net, net.host_layers, arrays_of_weights, "diff")[1]


def read_history(net: Net, kind: str) -> list[np.ndarray]:
    """The history of a solver in Caffe's order and layouts; zeros for what has no state yet."""
    history = []
    for slot, factor in HISTORY_SLOTS[kind].items():
        for param in owned_params(net.caffe_net):
            names = _slot_names(param, slot)
            if any(name not in net.variables for name in names):
                history.append(np.zeros(param.shape, net.backend.precision.float_dtype))
                continue
            (array,) = param.layout.transform.to_theirs(tuple(net.variables[name] for name in names))
            history.append(np.ascontiguousarray(array.reshape(param.shape) * np.asarray(factor, array.dtype)))
    return history


def write_history(net: Net, kind: str, history: tuple[np.ndarray, ...], path: str) -> None:
    """Set the state of a solver from its history. Raises ModelFileError where it does not fit the net."""
    slots, params = HISTORY_SLOTS[kind], owned_params(net.caffe_net)
    if len(history) != len(slots) * len(params):
        raise ModelFileError(
            f"{path}: its history has {len(history)} arrays, a {kind} solver of this net has "
            f"{len(slots) * len(params)}: {len(slots)} for each of its {len(params)} parameters. Is it the state of "
            "another solver type, or of another net?"
        )
    arrays = iter(history)
    new: dict[str, np.ndarray] = {}
    for slot, factor in slots.items():
        for param in params:
            array = next(arrays)
            if array.shape != param.shape and _squeezed(array.shape) != _squeezed(param.shape):
                raise ModelFileError(
                    f"{path}: the history of the layer {param.layer!r}, parameter {param.index}, has the shape "
                    f"{list(array.shape)}, expected {list(param.shape)}"
                )
            dtype = net.backend.precision.float_dtype
            values = (np.asarray(array, dtype) * np.asarray(factor, dtype)).reshape(param.shape)
            slot_arrays = param.layout.transform.to_ours((values,))
            new.update(zip(_slot_names(param, slot), slot_arrays, strict=True))
    for name, value in new.items():
        if name in net.variables:
            net.variables.assign(name, value)
        else:
            net.variables.create(name, np.array(value, order="C"), own=True)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its axes of size 1: old files have four axes."""
    return tuple(size for size in shape if size != 1)


def _slot_names(param: CaffeParam, slot: str) -> list[str]:
    return [f"{SLOT_PREFIX}{name}:{slot}" for name in param.weights]


def load_weights(net: Net, names: str, search: FileSearch) -> list[LoadReport]:
    """Copy the weights of files, names with commas between them, into a net, one after the other."""
    reports = []
    for name in names.split(","):
        try:
            path = search.find(name.strip(), "weights")
        except DataError as error:
            raise WeightsError(str(error)) from None
        reports.append(copy_weights(*net.stored_params(), read_weights(path)))
    return reports


def restore_snapshot(net: Net, kind: str, path: str | os.PathLike[str], search: FileSearch) -> SolverState:
    """Set a net's weights and a solver's history from a ``.solverstate`` or ``.solverstate.h5``; gives the state.

    Nothing has been changed after an error about the state's own file or about a missing file of weights.
    """
    state = read_solver_state(path)
    file = read_weights(_find_learned_net(state.learned_net, Path(path), search)) if state.learned_net else None
    write_history(net, kind, state.history, os.fspath(path))
    if file is not None:
        copy_weights(*net.stored_params(), file)
    return state


def _find_learned_net(name: str, state: Path, search: FileSearch) -> Path:
    """The weights that a state names: where Caffe looks for them, beside the solver, or beside the state."""
    for candidate in (name, os.path.basename(name)):
        try:
            path = search.with_folder_of(state).find(candidate, "weights")
        except (DataError, UsageError):
            continue
        if path.is_file():
            return path
    raise ModelFileError(
        f"{state}: the weights {name!r} that it continues with are neither there nor beside it; put the file beside "
        "the state, or begin with --weights FILE"
    )
