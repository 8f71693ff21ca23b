"""HDF5 files from elsewhere (weights of Keras and Caffe, data sets), read without trusting them.

The HDF5 library has faults that a made-up file can use, so it never opens such a file in this process: `child` does
it, in a process that can do nothing but read this one file. What comes back is checked again here. A refused file, a
child that dies or one that hangs, all are a ModelFileError.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from prototorch.errors import ModelFileError
from prototorch.spec import Spec
from prototorch.storage.tree_paths import find_path_error

_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
_FIXED_VARIABLES = {
    "HDF5_PLUGIN_PRELOAD": "::",  # no filter plugin is ever loaded
    "HDF5_USE_FILE_LOCKING": "FALSE",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_TYPES = {
    f"{order}{kind}" for order in "<>" for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}
_MAX_HEAD_BYTES = 256 << 20
_BASE_TIMEOUT = 10  # seconds for a file of no size
_MIN_READ_SPEED = 20 << 20  # bytes a second that reading takes at worst


@dataclass(frozen=True)
class HDF5Tree:
    """What was read: ``arrays`` by path, and by path of a group or dataset (the root is ``""``) its ``attributes``.

    An attribute is an int, float, bool or str, or a list of them; attributes of other kinds are left out.
    """

    arrays: dict[str, np.ndarray]
    attributes: dict[str, dict[str, Any]]


class ReaderProcess(Protocol):
    """A started child process, as far as it is used here."""

    stdout: IO[bytes]
    stderr: IO[bytes]

    def kill(self) -> None:
        """End it at once."""

    def wait(self) -> int:
        """Its exit status; negative: the signal that ended it."""


def read_datasets(
    path: str | os.PathLike[str], budget_bytes: int, names: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Every dataset of a foreign HDF5 file by path, or those in ``names`` alone.

    ``budget_bytes`` is the most that the arrays may take together: the sum of what is expected, which nothing in the
    file can enlarge. Raises ModelFileError naming the file, the object and the reason, when anything in the file is
    not plain (with ``names``: anything on the way to them).
    """
    return _request_arrays(path, budget_bytes, names, attributes=False)[0]


def read_tree(path: str | os.PathLike[str], budget_bytes: int) -> HDF5Tree:
    """As `read_datasets`, with the attributes of all groups and datasets (Keras keeps layers' names there)."""
    return HDF5Tree(*_request_arrays(path, budget_bytes, None, attributes=True))


def read_dataset_specs(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> dict[str, Spec]:
    """The shapes and types of the datasets, by path, without reading them. Raises ModelFileError as `read_datasets`."""
    rows, _, _ = _request_rows(path, 1 << 60, names)
    return {name: Spec(shape, np.dtype(dtype).newbyteorder("=").name) for name, dtype, shape, _ in rows}


def map_datasets(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The datasets as read-only memory maps of the file: for data larger than memory, read as it is needed.

    The file's structure is checked in the child process, then this process maps the bytes without the HDF5 library.
    Only contiguous datasets can be mapped (not chunked or compressed ones). The file must not change while it is in
    use. Raises ModelFileError as `read_datasets`.
    """
    rows, size, identity = _request_rows(path, 1 << 60, names)
    found: dict[str, np.ndarray] = {}
    for name, dtype, shape, offset in rows:
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        if nbytes == 0:
            found[name] = np.zeros(shape, np.dtype(dtype).newbyteorder("="))
        elif offset is None:
            raise ModelFileError(f"{os.fspath(path)}: {name}: chunked or compressed, so it can be read but not mapped")
        elif not 0 < offset <= size - nbytes:
            raise ModelFileError(f"{os.fspath(path)}: {name}: not within the file")
        else:
            found[name] = np.memmap(path, np.dtype(dtype), "r", offset, shape)
    if _file_identity(path) != identity:
        raise ModelFileError(f"{os.fspath(path)}: it was changed while it was read")
    return found


DatasetRow = tuple[str, str, tuple[int, ...], int | None]


def _request_rows(
    path: str | os.PathLike[str], budget: int, names: Sequence[str] | None
) -> tuple[list[DatasetRow], int, tuple[int, ...]]:
    """What the child says is in the file, without bytes; the file's size and identity."""
    identity = _file_identity(path)
    with _ReaderSession(path, budget, names, attributes=False, arrays=False) as child:
        rows, _ = child.head()
        child.finish()
    return rows, identity[2], identity


def _request_arrays(
    path: str | os.PathLike[str], budget: int, names: Sequence[str] | None, attributes: bool
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
    with _ReaderSession(path, budget, names, attributes, arrays=True) as child:
        rows, noted = child.head()
        arrays = {name: child.array(name, dtype, shape) for name, dtype, shape, _ in rows}
        child.finish()
    return arrays, noted


def _file_identity(path: str | os.PathLike[str]) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{os.fspath(path)}: cannot open it: {reason}") from error
    if not Path(path).is_file():
        raise ModelFileError(f"{os.fspath(path)}: expected a regular file")
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class _ReaderSession:
    """One child, one file. On leaving, the child has ended."""

    def __init__(
        self, path: str | os.PathLike[str], budget: int, names: Sequence[str] | None, attributes: bool, arrays: bool
    ):
        self.path, self.remaining_budget, self.budget = os.fspath(path), budget, budget
        size = _file_identity(path)[2]
        self.seconds = _BASE_TIMEOUT + (min(budget, 8 * size) if arrays else 0) // _MIN_READ_SPEED
        request = {
            "path": os.path.abspath(self.path),
            "budget": budget,
            "names": None if names is None else list(names),
            "attributes": attributes,
            "arrays": arrays,
            "seconds": max(1, self.seconds - _BASE_TIMEOUT // 2),  # of processor time
            "python_path": [entry for entry in sys.path if os.path.isabs(entry)],  # nothing beside the file is imported
        }
        self.timed_out = False
        self.child = _start_process(request)
        self.timer = threading.Timer(self.seconds, self._too_late)
        self.timer.daemon = True

    def __enter__(self) -> _ReaderSession:
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.timer.join()
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()
        self.child.stderr.close()

    def head(self) -> tuple[list[DatasetRow], dict[str, dict[str, Any]]]:
        """The rows and attributes, checked: the child read a hostile file, so its word is not taken."""
        length = int.from_bytes(self._bytes(8), "little")
        if length > _MAX_HEAD_BYTES:
            raise self._fault("the reading process gave a damaged answer")
        try:
            head = json.loads(self._bytes(length))
            rows = [self._row(*row) for row in head["arrays"]]
            return rows, dict(head["attributes"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._fault("the reading process gave a damaged answer") from error

    def _row(self, name: str, dtype: str, shape: list[int], offset: int | None) -> DatasetRow:
        lengths = tuple(int(length) for length in shape)
        fault = find_path_error(name)
        if fault or (dtype not in _TYPES and dtype != "|b1") or len(lengths) > 32 or any(n < 0 for n in lengths):
            raise ValueError(f"row {name!r:.80}")
        self.remaining_budget -= prod(lengths) * np.dtype(dtype).itemsize
        if self.remaining_budget < 0 or prod(max(n, 1) for n in lengths) > 1 << 59:
            raise ValueError(f"row {name!r:.80}: more bytes than expected")
        return name, dtype, lengths, None if offset is None else int(offset)

    def array(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """The next array of the answer, in this machine's byte order."""
        try:
            data = np.empty(shape, np.uint8 if dtype == "|b1" else dtype)
        except MemoryError as error:
            raise self._fault(f"{name}: no memory for an array of {list(shape)}") from error
        view = data.reshape(-1).view(np.uint8)
        done = 0
        while done < view.nbytes:
            count = self.child.stdout.readinto(view[done:].data)  # type: ignore[attr-defined]
            if not count:
                raise self._verdict()
            done += count
        if dtype == "|b1":
            if view.nbytes and view.max() > 1:
                raise self._fault(f"{name}: a boolean that is neither true nor false")
            return data.view(np.bool_)
        return data.astype(data.dtype.newbyteorder("="), copy=False)

    def finish(self) -> None:
        """The answer must end here, and well."""
        if self.child.stdout.read(1):
            raise self._fault("the reading process gave a damaged answer")
        if self.child.wait() != 0:
            raise self._verdict()

    def _bytes(self, count: int) -> bytes:
        parts, left = [], count
        while left:
            part = self.child.stdout.read(min(left, 1 << 20))
            if not part:
                raise self._verdict()
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _too_late(self) -> None:
        self.timed_out = True
        self.child.kill()

    def _fault(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {reason}")

    def _verdict(self) -> ModelFileError:
        """Why the child's answer ended early."""
        reason = self.child.stderr.read(4096).decode("utf-8", "replace")
        status = self.child.wait()
        if self.timed_out:
            return self._fault(f"reading it took more than {self.seconds} seconds; it is damaged or hostile")
        if status < 0:
            name = signal.Signals(-status).name if -status in signal.valid_signals() else str(-status)
            return self._fault(f"the process that read it was ended by {name}; it is damaged or hostile")
        return self._fault(reason or f"the process that read it ended with status {status}")


def _start_process(request: dict[str, Any]) -> ReaderProcess:
    environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | _FIXED_VARIABLES
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(Path(__file__).with_name("hdf5_sandbox.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment,
    )
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(request).encode())
        child.stdin.close()
    except BrokenPipeError:
        pass  # it died at once; its status tells
    return child  # type: ignore[return-value]
