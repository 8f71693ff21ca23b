"""Reader of LevelDB databases that are not trusted: LevelDB's library reads them in a process of its own.

The library writes into the folder that it opens (it recovers the log, and starts new files), so it gets a temporary
folder of links to the files; the database itself stays as it is, and may be read-only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from prototorch.caffe.data.record_database import RecordDatabase
from prototorch.data.safe_io import open_file, printable_path, read_head
from prototorch.engine.storage.reading_process import ReadingProcess, start_reading_process
from prototorch.errors import DataError, ResourceError

__all__ = ["INSTALL_HINT", "LevelDBReader", "is_leveldb"]

INSTALL_HINT = 'LevelDB needs the package plyvel: pip install "prototorch-dl[caffe-data]"'
_FILES = re.compile(r"(\d{6,20}\.(ldb|sst|log)|MANIFEST-\d{6,20})")
_CURRENT = re.compile(rb"MANIFEST-\d{6,20}\n")
_MAX_FILES = 1_000_000
_MAX_ANSWER_BYTES = 1 << 30  # of one answer; a larger record is refused
_RECORDS_AT_ONCE = 256
_TIMEOUT = 120.0  # seconds for one answer
_SLACK_BYTES = 512 << 20  # of address space, and of files that the library writes, beyond those of the database


def is_leveldb(path: Path) -> bool:
    """Whether a folder is a LevelDB: its file CURRENT names a manifest."""
    current = path / "CURRENT"
    return path.is_dir() and current.is_file() and _CURRENT.fullmatch(read_head(current, 64)) is not None


class LevelDBReader(RecordDatabase):
    """The records of a LevelDB.

    path: its folder. Raises DataError for a database that is damaged, ResourceError without the package plyvel.
    """

    format = "LevelDB"

    def __init__(self, path: Path):
        self.path = printable_path(path)
        self._keys: list[bytes] | None = None
        self._lock = threading.Lock()
        self._num_iterators = 0
        self._ended_iterators: list[int] = []
        self._process: ReadingProcess | None = None
        self._links = tempfile.TemporaryDirectory(prefix="prototorch-leveldb-")
        try:
            tables, logs = self._link_files(path)
            limits = {"address_space": 2 * tables + 4 * logs + _SLACK_BYTES, "file_bytes": 2 * logs + _SLACK_BYTES}
            self._process = start_reading_process("leveldb_sandbox.py", {"folder": self._links.name, **limits})
            self._read_answer(self._process)  # to opening it
        except BaseException:
            self.close()
            raise

    def records(self, first: int = 0) -> Iterator[tuple[bytes, bytes]]:
        return self._iterate(first, keys_only=False)

    def keys(self) -> Sequence[bytes]:
        if self._keys is None:
            self._keys = [key for key, _ in self._iterate(0, keys_only=True)]
        return self._keys

    def value(self, index: int) -> bytes:
        key = self.keys()[index]
        with self._lock:
            return bytes(self._ask({"do": "get", "key": key.hex()}))

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()
        self._links.cleanup()

    def _link_files(self, path: Path) -> tuple[int, int]:
        """Links to the files of the database; the bytes of its tables, and of its logs."""
        sizes = {"log": 0, "ldb": 0}
        names = [name for name in os.listdir(path) if _FILES.fullmatch(name)]
        if len(names) > _MAX_FILES:
            raise DataError(f"{self.path}: has {len(names):,} files; the limit is {_MAX_FILES:,}")
        for name in names:
            with open_file(path / name) as (_, size):  # refuses what is no regular file
                sizes["log" if name.endswith("log") else "ldb"] += size
            os.symlink(os.path.abspath(path / name), os.path.join(self._links.name, name))
        Path(self._links.name, "CURRENT").write_bytes(read_head(path / "CURRENT", 64))
        return sizes["ldb"], sizes["log"]

    def _iterate(self, first: int, keys_only: bool) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            self._num_iterators += 1
            number = self._num_iterators
            self._ask({"do": "open", "id": number, "skip": first, "keys_only": keys_only})
        try:
            while True:
                with self._lock:
                    answer = self._ask({"do": "next", "id": number, "count": _RECORDS_AT_ONCE})
                records = list(_split_records(answer))
                if not records:
                    return
                yield from records
        finally:  # no request: a generator may be collected while this thread holds the lock
            self._ended_iterators.append(number)

    def _ask(self, request: dict[str, object]) -> memoryview:
        """The answer to a request. Raises DataError where it is an error, or where the process has ended."""
        if self._process is None:
            raise DataError(f"{self.path}: is closed")
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; the answer says why
            ended, self._ended_iterators = self._ended_iterators, []
            self._process.stdin.write(json.dumps({**request, "ended": ended}).encode() + b"\n")
        return self._read_answer(self._process)

    def _read_answer(self, process: ReadingProcess) -> memoryview:
        timer = threading.Timer(_TIMEOUT, process.kill)
        timer.daemon = True
        timer.start()
        try:
            (size,) = struct.unpack("<Q", self._take(process, 8))
            if not 0 < size <= _MAX_ANSWER_BYTES:
                raise DataError(f"{self.path}: an answer of {size:,} bytes; the limit is {_MAX_ANSWER_BYTES:,}")
            answer = memoryview(self._take(process, size))
        finally:
            timer.cancel()
        if answer[0] == 0:
            return answer[1:]
        text = str(answer[1:], "utf-8", "replace")
        if text.startswith(("ImportError", "ModuleNotFoundError")):
            raise ResourceError(f"{self.path}: {INSTALL_HINT}")
        raise DataError(f"{self.path}: the LevelDB is damaged: {text.replace(self._links.name, self.path)}")

    def _take(self, process: ReadingProcess, size: int) -> bytes:
        assert process.stdout is not None
        parts, missing = [], size
        while missing:
            part = process.stdout.read(min(missing, 1 << 20))
            if not part:
                raise DataError(f"{self.path}: {_reason_of_end(process)}; the LevelDB is damaged or hostile")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def _split_records(answer: memoryview) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(answer):
        key_size, size = struct.unpack_from("<II", answer, position)
        start = position + 8 + key_size
        yield bytes(answer[position + 8 : start]), bytes(answer[start : start + size])
        position = start + size


def _reason_of_end(process: ReadingProcess) -> str:
    status = process.wait()
    if status < 0:
        name = signal.Signals(-status).name if -status in signal.valid_signals() else str(-status)
        return f"the process that read it was ended by {name}"
    return f"the process that read it ended with status {status}"
