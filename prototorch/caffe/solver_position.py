"""Where a solver stands in its data and random numbers, in a file of ours beside its ``.solverstate``.

Caffe's state knows neither, so that Caffe begins the data anew. A batch is a function of its number and the seed here,
and so is a random mask: their numbers and the seed are all that there is to write. The file is written before the state
and names the state by a digest of its numbers; it keeps the record of the state before it, so that whichever of the two
states a killed write leaves has its position.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.caffe.interop.solver_state import SolverState
from prototorch.data.safe_io import read_file
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import ModelFileError

__all__ = ["NetPosition", "SolverPosition", "position_path", "read_position", "write_position"]

MAX_BYTES = 1 << 20
_FORMAT = 1
_MAX_NUMBER = 1 << 62


@dataclass(frozen=True)
class NetPosition:
    """The number of a net's next run layer by layer, and of the next batch of each data layer, by its place."""

    run: int
    batches: dict[str, int]


@dataclass(frozen=True)
class SolverPosition:
    """seed: of data and random layers. batch: the number of the next batch of iterations that are one plan. nets: the
    train net and the test nets."""

    seed: int
    batch: int
    nets: tuple[NetPosition, ...]


def position_path(state_path: str | os.PathLike[str]) -> str:
    """The file beside a state's: ``NAME.resume`` beside ``NAME.solverstate`` or ``NAME.solverstate.h5``."""
    return os.fspath(state_path).removesuffix(".h5").removesuffix(".solverstate") + ".resume"


def _digest(state: SolverState) -> str:
    """Of what a state holds but for the name of its weights."""
    digest = hashlib.sha256(f"{state.iteration} {state.current_step} {len(state.history)}".encode())
    for array in state.history:
        digest.update(np.ascontiguousarray(array, np.float32).tobytes())
    return digest.hexdigest()


def write_position(state_path: str, state: SolverState, position: SolverPosition) -> None:
    """Write the position of a state that is written next. Raises SnapshotError."""
    path, digest = position_path(state_path), _digest(state)
    records = {digest: asdict(position)}
    try:
        before = _read_records(path)
    except ModelFileError:
        before = {}
    records.update([item for item in before.items() if item[0] != digest][:1])
    write_bytes(path, json.dumps({"format": _FORMAT, "states": records}, indent=1).encode())


def read_position(state_path: str | os.PathLike[str], state: SolverState) -> SolverPosition | None:
    """The position of a state; None where the file is missing, or is of other states. Raises ModelFileError for a
    damaged one."""
    path = position_path(state_path)
    if not Path(path).is_file():
        return None
    record = _read_records(path).get(_digest(state))
    return None if record is None else _position(record, path)


def _read_records(path: str) -> dict[str, Any]:
    if not Path(path).is_file():
        return {}
    try:
        content = json.loads(bytes(read_file(path, MAX_BYTES)))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: is damaged ({error!s:.80}); --caffe-resume goes on without it") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT or not isinstance(content.get("states"), dict):
        raise ModelFileError(f"{path}: expected format {_FORMAT} with states; --caffe-resume goes on without it")
    states: dict[str, Any] = content["states"]
    return states


def _position(record: Any, path: str) -> SolverPosition:
    def number(value: Any) -> int:
        if type(value) is not int or not 0 <= value < _MAX_NUMBER:
            raise ModelFileError(f"{path}: {value!r:.40} is no number of a batch; --caffe-resume goes on without it")
        return value

    try:
        nets = tuple(
            NetPosition(number(net["run"]), {str(int(k)): number(n) for k, n in _items(net["batches"])})
            for net in record["nets"]
        )
        return SolverPosition(number(record["seed"]), number(record["batch"]), nets)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: is damaged ({error!s:.80}); --caffe-resume goes on without it") from None


def _items(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise TypeError("batches are no mapping")
    return list(value.items())
