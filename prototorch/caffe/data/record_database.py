"""A database of records, values by key in the order of the keys: LMDB and LevelDB, in which Caffe keeps Datums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["RecordDatabase", "printable_key"]


class RecordDatabase(ABC):
    """A database that is open for reading.

    Attributes:
        path: its folder, printable, for messages.
        format: "LMDB" or "LevelDB".
    """

    path: str
    format: str

    @abstractmethod
    def records(self, first: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values in the order of the keys, from the record of this number on; they are read one by one.

        Raises DataError where the file is damaged.
        """

    @abstractmethod
    def keys(self) -> Sequence[bytes]:
        """All keys in their order. The first call reads all pages that hold keys (LevelDB: the whole database)."""

    @abstractmethod
    def value(self, index: int) -> bytes:
        """The value of the record of this number; several threads may call it. The first call reads as `keys` does."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    def __len__(self) -> int:
        """The number of records."""
        return len(self.keys())

    def __del__(self) -> None:
        with suppress(AttributeError):  # of one that could not be opened
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def printable_key(key: bytes) -> str:
    """A key for messages."""
    return repr(key.decode("utf-8", "backslashreplace"))
