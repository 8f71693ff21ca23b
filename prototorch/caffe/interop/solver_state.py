"""Caffe's solver states, ``.solverstate`` and ``.solverstate.h5``: read and written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prototorch.caffe.interop.blob_proto import blob_array, blob_message
from prototorch.caffe.interop.wire import ProtobufError, decode, iter_encoded
from prototorch.caffe.text.message import Message
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.foreign_hdf5 import HDF5Layout, read_layout
from prototorch.engine.storage.hdf5_image import encode_image
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError

__all__ = ["SolverState", "is_hdf5_state", "read_solver_state", "write_solver_state"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NAMES = {"iter", "current_step", "learned_net"}


@dataclass(frozen=True)
class SolverState:
    """A solver's state after an iteration.

    iteration: the number of iterations that are done. learned_net: the path of the weights' file as the solver wrote
    it, "" where there is none. current_step: how many steps of the learning rate are done (policies step and
    multistep). history: the optimizer's arrays in the order of the net's parameter blobs; AdaDelta and Adam have a
    second one of each behind all first ones.
    """

    iteration: int
    learned_net: str
    current_step: int
    history: tuple[np.ndarray, ...]


def read_solver_state(path: str | os.PathLike[str]) -> SolverState:
    """The state in a file of either form; arrays are read-only, memory maps where they can be.

    Raises ModelFileError for a file that is missing, damaged, or no solver state.
    """
    file = MappedFile(path)
    if bytes(file.data[: len(_SIGNATURE)]) == _SIGNATURE:
        return _read_hdf5(read_layout(path))
    try:
        message = decode(file.data, "SolverState")
        history = tuple(blob_array(blob) for blob in message["history"])
    except ProtobufError as error:
        raise ModelFileError(f"{file.path}: not a solver state of Caffe, or damaged: {error}") from None
    if not message.has("iter"):
        raise ModelFileError(f"{file.path}: not a solver state of Caffe: it has no iteration")
    _check_numbers(file.path, message["iter"], message["current_step"])
    return SolverState(message["iter"], message["learned_net"], message["current_step"], history)


def is_hdf5_state(layout: HDF5Layout) -> bool:
    """Whether an HDF5 file is a ``.solverstate.h5``."""
    names = {name for name in layout.datasets if not name.startswith("history/")}
    return {"iter", "current_step"} <= names <= _NAMES


def _read_hdf5(layout: HDF5Layout) -> SolverState:
    if not is_hdf5_state(layout):
        raise ModelFileError(f"{layout.path}: not a solver state of Caffe: expected iter, current_step and history")
    names = [name for name in layout.datasets if name.startswith("history/")]
    if set(names) != {f"history/{i}" for i in range(len(names))}:
        raise ModelFileError(f"{layout.path}: the arrays of history are not numbered from 0 to {len(names) - 1}")
    numbers = {}
    for name in ("iter", "current_step"):
        values = layout.read(name).reshape(-1)
        if values.size != 1 or values.dtype.kind not in "iu":
            raise ModelFileError(f"{layout.path}: {name} is not one integer")
        numbers[name] = int(values[0])
    _check_numbers(layout.path, *numbers.values())
    learned = layout.read("learned_net").tobytes() if "learned_net" in layout.datasets else b""
    history = tuple(layout.read(f"history/{i}") for i in range(len(names)))
    if any(array.dtype.kind not in "fiu" for array in history):
        raise ModelFileError(f"{layout.path}: history holds other arrays than numbers")
    text = learned.partition(b"\0")[0].decode("utf-8", "backslashreplace")
    return SolverState(numbers["iter"], text, numbers["current_step"], history)


def _check_numbers(path: str, iteration: int, current_step: int) -> None:
    if iteration < 0 or current_step < 0:
        raise ModelFileError(f"{path}: iter is {iteration}, current_step {current_step}; expected no negative number")


def write_solver_state(path: str | os.PathLike[str], state: SolverState) -> None:
    """Write a state, as HDF5 where the path ends with ``.h5``, else as a binary message; whole or not at all.

    Raises SnapshotError where it cannot be written.
    """
    if os.fspath(path).endswith(".h5"):
        write_bytes(path, encode_image(_entries(state)))
        return
    message = Message(
        "SolverState",
        iter=state.iteration,
        learned_net=state.learned_net,
        current_step=state.current_step,
        history=[blob_message(array) for array in state.history],
    )
    write_bytes(path, list(iter_encoded(message)))


def _entries(state: SolverState) -> Iterator[tuple[tuple[str, ...], np.ndarray | bytes | None]]:
    yield ("iter",), np.array([state.iteration], np.int32)
    yield ("learned_net",), state.learned_net.encode("utf-8", "replace")
    yield ("current_step",), np.array([state.current_step], np.int32)
    yield ("history",), None
    for i, array in enumerate(state.history):
        yield ("history", str(i)), array
