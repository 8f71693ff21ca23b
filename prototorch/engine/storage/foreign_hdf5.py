"""Reader of untrusted HDF5 files (weights of Keras and Caffe, data sets).

The HDF5 library has vulnerabilities that a crafted file can exploit, so it never opens such a file in this process:
`hdf5_sandbox` does, in a process that can do nothing but read this one file. Its answer is validated again here. A
refused file, a process that crashes and one that hangs are all a ModelFileError.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.reading_process import start_reading_process
from prototorch.engine.storage.tree_paths import find_path_error
from prototorch.errors import ModelFileError
from prototorch.spec import Spec

__all__ = [
    "HDF5Layout",
    "StoredDataset",
    "map_datasets",
    "read_dataset_specs",
    "read_datasets",
    "read_layout",
    "read_tree",
]

_TYPES = {
    f"{order}{kind}" for order in "<>" for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
} | {"|b1", "|V2"}
_OPAQUE = "|V2"
_MAX_EXPANSION = 16  # bytes of arrays for each byte of a file of weights, where they are compressed
_MAX_HEAD_BYTES = 256 << 20
_BASE_TIMEOUT = 10  # seconds for an empty file
_MIN_READ_SPEED = 20 << 20  # bytes per second, in the worst case


@dataclass(frozen=True)
class StoredDataset:
    """A dataset in a file. dtype: NumPy's code; ``|V2`` for two bytes of no type (Keras' bfloat16), read as ``<u2``.
    offset: of its bytes in the file; None where they are in chunks."""

    dtype: str
    shape: tuple[int, ...]
    offset: int | None


@dataclass(frozen=True)
class HDF5Layout:
    """What a file holds without the arrays: `StoredDataset`s and attributes (see `HDF5Tree`) by path.

    identity: of the file that was read. part: as in `read_layout`.
    """

    path: str
    datasets: dict[str, StoredDataset]
    attributes: dict[str, dict[str, object]]
    identity: tuple[int, ...]
    part: tuple[int, int] | None = None

    def read(self, name: str) -> np.ndarray:
        """A dataset, read-only, in native byte order: a memory map where its bytes are in one piece. Datasets in chunks
        are read all at once, the first time one is asked for. Raises ModelFileError."""
        dataset = self.datasets[name]
        kind = np.dtype("<u2" if dataset.dtype == _OPAQUE else dataset.dtype)
        if not prod(dataset.shape):
            return np.zeros(dataset.shape, kind.newbyteorder("="))
        if dataset.offset is None:
            return self._chunked_arrays[name]
        array = self._file.array(kind, dataset.shape, dataset.offset, name)
        return array.astype(kind.newbyteorder("="), copy=False)

    @cached_property
    def _chunked_arrays(self) -> dict[str, np.ndarray]:
        names = [name for name, dataset in self.datasets.items() if dataset.offset is None]
        budget = _MAX_EXPANSION * self.identity[2] + (1 << 20)
        with _ReaderSession(self.path, budget, names, attributes=False, arrays=True, part=self.part) as session:
            rows, _ = session.read_head()
            arrays = {name: session.read_array(name, dtype, shape) for name, dtype, shape, _ in rows}
            session.finish()
        if _file_identity(self.path) != self.identity or arrays.keys() != set(names):
            raise ModelFileError(f"{self.path}: the file was changed while it was read")
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    def load(self) -> None:
        """Map the file, and read what is in chunks: what `read` needs, should the file be removed."""
        if self.identity[2]:
            _ = self._file
        if any(dataset.offset is None and prod(dataset.shape) for dataset in self.datasets.values()):
            _ = self._chunked_arrays

    @cached_property
    def _file(self) -> MappedFile:
        if _file_identity(self.path) != self.identity:
            raise ModelFileError(f"{self.path}: the file was changed while it was read")
        return MappedFile(self.path)


@dataclass(frozen=True)
class HDF5Tree:
    """The content of a file: ``arrays`` by path, ``attributes`` by path of their group or dataset (the root is ``""``).

    An attribute is an int, float, bool or str, or a list of these; attributes of other types are left out.
    """

    arrays: dict[str, np.ndarray]
    attributes: dict[str, dict[str, object]]


class ReaderProcess(Protocol):
    """The interface of the sandboxed process that is used here."""

    stdout: IO[bytes]
    stderr: IO[bytes]

    def kill(self) -> None:
        """End it immediately."""

    def wait(self) -> int:
        """Wait for its end; its exit status, negative for a signal."""


def read_datasets(
    path: str | os.PathLike[str], budget_bytes: int, names: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """The datasets of a foreign HDF5 file by path: all of them, or only those in ``names``.

    ``budget_bytes`` is the limit on the bytes of all arrays, which nothing in the file can raise. Raises
    ModelFileError, with the path, the object and the reason, if anything in the file is not a plain array or group
    (with ``names``: anything on the way to them).
    """
    return _request_arrays(path, budget_bytes, names, attributes=False)[0]


def read_tree(path: str | os.PathLike[str], budget_bytes: int) -> HDF5Tree:
    """As `read_datasets`, with the attributes of all groups and datasets (Keras stores layer names in them)."""
    return HDF5Tree(*_request_arrays(path, budget_bytes, None, attributes=True))


def read_dataset_specs(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> dict[str, Spec]:
    """Shapes and dtypes of the datasets, by path, without reading them. Raises ModelFileError as `read_datasets`."""
    rows, _, _ = _request_rows(path, 1 << 60, names)
    return {name: Spec(shape, np.dtype(dtype).newbyteorder("=").name) for name, dtype, shape, _ in rows}


def map_datasets(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The datasets as read-only memory maps of the file: for data larger than memory, paged in on access.

    The structure of the file is validated in the sandbox, then this process maps the bytes without the HDF5 library.
    Only contiguous datasets can be mapped (not chunked or compressed ones). The file must not change while it is
    mapped. Raises ModelFileError as `read_datasets`.
    """
    rows, size, identity = _request_rows(path, 1 << 60, names)
    arrays: dict[str, np.ndarray] = {}
    for name, dtype, shape, offset in rows:
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        if nbytes == 0:
            arrays[name] = np.zeros(shape, np.dtype(dtype).newbyteorder("="))
        elif offset is None:
            raise ModelFileError(
                f"{os.fspath(path)}: {name}: chunked or compressed datasets can be read but not mapped"
            )
        elif not 0 < offset <= size - nbytes:
            raise ModelFileError(f"{os.fspath(path)}: {name}: its bytes are not within the file")
        else:
            arrays[name] = np.memmap(path, np.dtype(dtype), "r", offset, shape)
    if _file_identity(path) != identity:
        raise ModelFileError(f"{os.fspath(path)}: the file was changed while it was read")
    return arrays


def read_layout(path: str | os.PathLike[str], start: int = 0, nbytes: int | None = None) -> HDF5Layout:
    """Which datasets a file holds, and the attributes of its groups and datasets; no array is read.

    start, nbytes: where the HDF5 file lies within the file, in bytes (that of a zip archive), the whole of it by
    default. Raises ModelFileError as `read_datasets`.
    """
    identity = _file_identity(path)
    part = None if nbytes is None else (start, nbytes)
    with _ReaderSession(path, 1 << 60, None, attributes=True, arrays=False, part=part) as session:
        rows, attributes = session.read_head()
        session.finish()
    datasets = {
        name: StoredDataset(dtype, shape, None if offset is None else offset + start)
        for name, dtype, shape, offset in rows
    }
    return HDF5Layout(os.fspath(path), datasets, attributes, identity, part)


DatasetRow = tuple[str, str, tuple[int, ...], int | None]


def _request_rows(
    path: str | os.PathLike[str], budget: int, names: Sequence[str] | None
) -> tuple[list[DatasetRow], int, tuple[int, ...]]:
    """The datasets of the file without their bytes, the file's size and its identity."""
    identity = _file_identity(path)
    with _ReaderSession(path, budget, names, attributes=False, arrays=False) as session:
        rows, _ = session.read_head()
        session.finish()
    return rows, identity[2], identity


def _request_arrays(
    path: str | os.PathLike[str], budget: int, names: Sequence[str] | None, attributes: bool
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, object]]]:
    with _ReaderSession(path, budget, names, attributes, arrays=True) as session:
        rows, attributes_by_path = session.read_head()
        arrays = {name: session.read_array(name, dtype, shape) for name, dtype, shape, _ in rows}
        session.finish()
    return arrays, attributes_by_path


def _file_identity(path: str | os.PathLike[str]) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{os.fspath(path)}: cannot open it: {reason}") from error
    if not Path(path).is_file():
        raise ModelFileError(f"{os.fspath(path)}: expected a regular file")
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _ReaderSession:
    """A sandboxed process that reads one file. On exit the process has ended."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: int,
        names: Sequence[str] | None,
        attributes: bool,
        arrays: bool,
        part: tuple[int, int] | None = None,
    ):
        self.path, self.remaining_budget, self.budget = os.fspath(path), budget, budget
        size = _file_identity(path)[2]
        self.seconds = _BASE_TIMEOUT + (min(budget, 8 * size) if arrays else 0) // _MIN_READ_SPEED
        request: dict[str, object] = {
            "path": os.path.abspath(self.path),
            "part": part,
            "allow_opaque": attributes and not arrays,
            "budget": budget,
            "names": None if names is None else list(names),
            "attributes": attributes,
            "arrays": arrays,
            "seconds": max(1, self.seconds - _BASE_TIMEOUT // 2),  # processor time
        }
        self.timed_out = False
        self.process = _start_process(request)
        self.timer = threading.Timer(self.seconds, self._on_timeout)
        self.timer.daemon = True

    def __enter__(self) -> _ReaderSession:
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.timer.join()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def read_head(self) -> tuple[list[DatasetRow], dict[str, dict[str, object]]]:
        """The rows and attributes, validated: the process may have been taken over by a hostile file."""
        length = int.from_bytes(self._bytes(8), "little")
        if length > _MAX_HEAD_BYTES:
            raise self._error("the reading process gave a damaged answer")
        try:
            head = json.loads(self._bytes(length))
            rows = [self._row(*row) for row in head["arrays"]]
            return rows, dict(head["attributes"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._error("the reading process gave a damaged answer") from error

    def _row(self, name: str, dtype: str, shape: list[int], offset: int | None) -> DatasetRow:
        lengths = tuple(int(length) for length in shape)
        if find_path_error(name) or dtype not in _TYPES or len(lengths) > 32 or any(n < 0 for n in lengths):
            raise ValueError(f"row {name!r:.80}")
        self.remaining_budget -= prod(lengths) * np.dtype(dtype).itemsize
        if self.remaining_budget < 0 or prod(max(n, 1) for n in lengths) > 1 << 59:
            raise ValueError(f"row {name!r:.80}: more bytes than expected")
        return name, dtype, lengths, None if offset is None else int(offset)

    def read_array(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """The next array of the answer, in native byte order."""
        try:
            data = np.empty(shape, {"|b1": "u1", _OPAQUE: "<u2"}.get(dtype, dtype))
        except MemoryError as error:
            raise self._error(f"{name}: not enough memory for an array of {list(shape)}") from error
        view = data.reshape(-1).view(np.uint8)
        count_read = 0
        while count_read < view.nbytes:
            count = self.process.stdout.readinto(view[count_read:].data)  # type: ignore[attr-defined]
            if not count:
                raise self._failure()
            count_read += count
        if dtype == "|b1":
            if view.nbytes and view.max() > 1:
                raise self._error(f"{name}: a boolean that is neither 0 nor 1")
            return data.view(np.bool_)
        return data.astype(data.dtype.newbyteorder("="), copy=False)

    def finish(self) -> None:
        """Check that the answer ends here and the process exits with status 0."""
        if self.process.stdout.read(1):
            raise self._error("the reading process gave a damaged answer")
        if self.process.wait() != 0:
            raise self._failure()

    def _bytes(self, count: int) -> bytes:
        parts, remaining = [], count
        while remaining:
            part = self.process.stdout.read(min(remaining, 1 << 20))
            if not part:
                raise self._failure()
            parts.append(part)
            remaining -= len(part)
        return b"".join(parts)

    def _on_timeout(self) -> None:
        self.timed_out = True
        self.process.kill()

    def _error(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {reason}")

    def _failure(self) -> ModelFileError:
        """The error that explains why the answer ended early."""
        reason = self.process.stderr.read(4096).decode("utf-8", "replace")
        status = self.process.wait()
        if self.timed_out:
            return self._error(f"reading it took more than {self.seconds} seconds; it is damaged or hostile")
        if status < 0:
            name = signal.Signals(-status).name if -status in signal.valid_signals() else str(-status)
            return self._error(f"the process that read it was ended by {name}; it is damaged or hostile")
        return self._error(reason or f"the process that read it ended with status {status}")


def _start_process(request: dict[str, object]) -> ReaderProcess:
    process = start_reading_process("hdf5_sandbox.py", request)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended immediately; its status says why
        process.stdin.close()
    return process  # type: ignore[return-value]
