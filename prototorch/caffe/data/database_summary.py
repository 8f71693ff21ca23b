"""What a database of Datums holds: numbers of records, shapes and labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from prototorch.caffe.data.datum import read_datum
from prototorch.caffe.data.record_database import RecordDatabase, printable_key

__all__ = ["DatabaseSummary", "summarize_database"]


@dataclass
class DatabaseSummary:
    """num_records; num_encoded, of those that hold image files; num_bytes, of all values; shapes and labels with the
    number of records that have them; first_key and last_key, printable."""

    num_records: int = 0
    num_encoded: int = 0
    num_bytes: int = 0
    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    labels: Counter[int] = field(default_factory=Counter)
    first_key: str = ""
    last_key: str = ""


def summarize_database(database: RecordDatabase) -> DatabaseSummary:
    """Read all records of a database. Raises DataError for one that is no Datum, with its key."""
    summary = DatabaseSummary()
    for key, value in database.records():
        datum = read_datum(value, f"{database.path}: record {printable_key(key)}")
        summary.first_key = summary.first_key or printable_key(key)
        summary.last_key = printable_key(key)
        summary.num_records += 1
        summary.num_encoded += datum.is_encoded
        summary.num_bytes += len(value)
        summary.shapes[datum.image.shape] += 1
        summary.labels[datum.label] += 1
    return summary
