"""Writing of databases of records: in a temporary folder beside the final one, which is renamed when it is complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Literal

from prototorch.caffe.data.leveldb_reader import INSTALL_HINT
from prototorch.caffe.data.lmdb_writer import write_lmdb
from prototorch.data.safe_io import printable_path
from prototorch.engine.storage.atomic_write import replace_folder, staging_folder
from prototorch.errors import FileError, ResourceError, UsageError

__all__ = ["DatabaseFormat", "new_folder", "write_database"]

DatabaseFormat = Literal["lmdb", "leveldb"]
_RECORDS_AT_ONCE = 1000  # of one LevelDB batch
_BLOCK_BYTES, _BUFFER_BYTES = 65536, 268435456  # of LevelDB, as Caffe sets them


def write_database(
    path: Path, records: Iterable[tuple[bytes, bytes]], file_format: DatabaseFormat = "lmdb", *, force: bool = False
) -> int:
    """Write a database, which is there whole or not at all; returns the number of records.

    Args:
        path: the folder that becomes the database.
        records: keys and values, for LMDB in ascending order of the keys.
        file_format: "lmdb" or "leveldb".
        force: replace what is there.

    Raises:
        UsageError: something is there, and ``force`` is not given.
        DataError: as `write_lmdb`.
        FileError: it cannot be written.
        ResourceError: the package for LevelDB is missing.
    """
    write = _write_lmdb_folder if file_format == "lmdb" else _leveldb_writer()
    with new_folder(path, force) as folder:
        return write(folder, records)


@contextmanager
def new_folder(path: Path, force: bool = False) -> Iterator[Path]:
    """A temporary folder that becomes ``path`` when the block ends, and is removed where it raises.

    Raises UsageError where something is there and ``force`` is not given, FileError for errors of the system.
    """
    if os.path.lexists(path) and not force:
        raise UsageError(f"{printable_path(path)}: exists; --force replaces it")
    try:
        with staging_folder(path) as content:
            yield Path(content)
            replace_folder(content, path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{printable_path(path)}: cannot be written: {error.strerror or error}") from None


def _write_lmdb_folder(folder: Path, records: Iterable[tuple[bytes, bytes]]) -> int:
    with (folder / "data.mdb").open("wb") as file:
        count = write_lmdb(file, records)
        file.flush()
        os.fsync(file.fileno())
    return count


def _leveldb_writer() -> Callable[[Path, Iterable[tuple[bytes, bytes]]], int]:
    try:
        import plyvel
    except ImportError:
        raise ResourceError(INSTALL_HINT) from None

    def write(folder: Path, records: Iterable[tuple[bytes, bytes]]) -> int:
        folder.rmdir()  # the library makes it
        count = 0
        remaining = iter(records)
        try:
            with plyvel.DB(
                str(folder),
                create_if_missing=True,
                error_if_exists=True,
                block_size=_BLOCK_BYTES,
                write_buffer_size=_BUFFER_BYTES,
            ) as database:
                while part := list(islice(remaining, _RECORDS_AT_ONCE)):
                    with database.write_batch(sync=True) as batch:
                        for key, value in part:
                            batch.put(key, value)
                    count += len(part)
        except plyvel.Error as error:
            raise FileError(f"{printable_path(folder)}: LevelDB cannot write it: {error}") from None
        return count

    return write
