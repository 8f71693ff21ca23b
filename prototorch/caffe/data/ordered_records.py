"""Batches of records for several threads: the records are read by one thread at a time, in their order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice

from prototorch.caffe.data.record_database import RecordDatabase
from prototorch.errors import DataError

__all__ = ["OrderedRecords"]

Record = tuple[bytes, bytes]


class OrderedRecords:
    """The batches of a database that is read again from its start at its end, from one of them on.

    Args:
        database: the records, at least one.
        batch_size: records of a batch.
        skip: records that are left out before batch 0.
        start: the number of the first batch that is taken.
    """

    def __init__(self, database: RecordDatabase, batch_size: int, skip: int = 0, start: int = 0):
        self._database, self._batch_size = database, batch_size
        self._condition = threading.Condition()
        self._next = start
        self._error: BaseException | None = None
        self._records = self._iter_from(skip + start * batch_size)

    def close(self) -> None:
        """Let the threads that wait for a batch end."""
        with self._condition:
            self._error = DataError(f"{self._database.path}: is closed")
            self._condition.notify_all()

    def take(self, number: int) -> list[Record]:
        """The records of a batch. Waits until the batches before it have been read; raises what reading them raised."""
        with self._condition:
            while self._next != number and self._error is None:
                self._condition.wait(0.5)
            if self._error is not None:
                raise self._error
            try:
                return list(islice(self._records, self._batch_size))
            except BaseException as error:
                self._error = error
                raise
            finally:
                self._next += 1
                self._condition.notify_all()

    def _iter_from(self, first: int) -> Iterator[Record]:
        if first:
            first %= len(self._database)
        while True:
            yield from self._database.records(first)
            first = 0
