"""Opening of a database by its path: what is there decides whether it is LMDB or LevelDB."""

from __future__ import annotations

from pathlib import Path

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.data.leveldb_reader import LevelDBReader, is_leveldb
from prototorch.caffe.data.lmdb_reader import LMDBReader, find_lmdb_file
from prototorch.caffe.data.record_database import RecordDatabase
from prototorch.data.safe_io import printable_path
from prototorch.errors import DataError

__all__ = ["is_database", "open_database"]


def is_database(path: Path) -> bool:
    """Whether a folder or file is an LMDB or a LevelDB."""
    return find_lmdb_file(path) is not None or is_leveldb(path)


def open_database(path: Path, search: FileSearch | None = None) -> RecordDatabase:
    """Open the LMDB (a folder with data.mdb, or such a file) or LevelDB at this path for reading.

    search: its limits hold for the files inside, which may be links. Raises DataError where there is none, or where it
    is damaged; UsageError beyond the limits; ResourceError without the package that LevelDB needs.
    """
    if search is not None and search.limits is not None and path.is_dir():
        for inner in path.iterdir():
            search.check(str(inner), inner)
    file = find_lmdb_file(path)
    if file is not None:
        return LMDBReader(file)
    if is_leveldb(path):
        return LevelDBReader(path)
    raise DataError(
        f"{printable_path(path)}: is neither an LMDB (a folder with data.mdb) nor a LevelDB (a folder with CURRENT)"
    )
