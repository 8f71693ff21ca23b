"""Large CSV files of numbers by Arrow's reader, where the package pyarrow is installed: in blocks of whole lines.

Measured with 1,000,000 rows of 11 columns: benchmarks/results/cpu-2026-11-24-tables.md. What it does not read, the
reader of `csv_reader` reads, or refuses with the line.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.data.safe_io import check_memory, inflate, is_gzip, open_file, printable_path, read_file, read_head

__all__ = ["ArrowCsv", "open_arrow_csv"]

MIN_BYTES = 1 << 20  # of a file that is worth the import of the package
BLOCK_BYTES = 1 << 18
THREADS = 2


@dataclass(frozen=True)
class ArrowCsv:
    """A CSV file.

    Attributes:
        path: of the file; content: what it holds, where it is compressed; None: it is read in blocks.
        delimiter: of its fields; width: the number of columns.
        lines: the number of its lines, without the first one where that is a header.
    """

    path: str
    content: bytes | None
    delimiter: str
    width: int
    lines: int
    has_header: bool

    def read(self, groups: Sequence[Sequence[int]], dtypes: Sequence[Any]) -> list[np.ndarray] | None:
        """The columns of several groups, arrays [rows, columns], each of its dtype; None where the file holds anything
        but numbers in rows of one length, without empty lines between them."""
        import pyarrow as pa
        from pyarrow import csv

        names = [f"f{index}" for index in range(self.width)]
        columns = list(dict.fromkeys(names[index] for group in groups for index in group))
        arrays = [np.empty((self.lines, len(group)), dtype) for group, dtype in zip(groups, dtypes, strict=True)]
        read_options = csv.ReadOptions(column_names=names, use_threads=False, block_size=2 * BLOCK_BYTES)
        parse_options = csv.ParseOptions(delimiter=self.delimiter)
        types = dict.fromkeys(names, pa.float64())
        convert_options = csv.ConvertOptions(column_types=types, include_columns=columns, null_values=[])
        pool = pa.system_memory_pool()  # which gives the memory of a block back

        def parse(block: bytes) -> list[np.ndarray]:
            buffer = pa.BufferReader(block)
            table = csv.read_csv(buffer, read_options, parse_options, convert_options, memory_pool=pool)
            by_name = {name: table.column(name).to_numpy() for name in columns}
            return [
                np.stack([by_name[names[index]] for index in group], 1, dtype=array.dtype, casting="unsafe")
                for array, group in zip(arrays, groups, strict=True)
            ]

        start, pending = 0, deque[Future[list[np.ndarray]]]()
        with ThreadPoolExecutor(THREADS) as threads:
            blocks = self._blocks()
            while True:
                while len(pending) < 2 * THREADS and (block := next(blocks, None)) is not None:
                    pending.append(threads.submit(parse, block))
                if not pending:
                    break
                try:
                    parts = pending.popleft().result()
                except pa.ArrowException:
                    return None
                stop = start + len(parts[0])
                if stop > self.lines:
                    return None
                for array, part in zip(arrays, parts, strict=True):
                    array[start:stop] = part
                start = stop
        return arrays if start == self.lines else None

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines without the header, in blocks."""
        with io.BytesIO(self.content) if self.content is not None else open(self.path, "rb", buffering=0) as file:
            rest, is_first = b"", True
            while part := file.read(BLOCK_BYTES):
                part = rest + part
                if is_first:
                    part = part.removeprefix(b"\xef\xbb\xbf")
                if is_first and self.has_header:
                    end = part.find(b"\n") + 1
                    if not end:
                        rest = part
                        continue
                    part = part[end:]
                is_first = False
                end = part.rfind(b"\n") + 1
                if end:
                    yield part[:end]
                rest = part[end:]
            if rest:
                yield rest


def open_arrow_csv(path: str | os.PathLike[str], delimiter: str, width: int, has_header: bool) -> ArrowCsv | None:
    """A file for Arrow's reader; None for a small one, and without the package.

    Raises DataError for a damaged gzip stream, ResourceError for a file that does not fit in memory.
    """
    with open_file(path) as (_, size):
        pass
    if size < MIN_BYTES or importlib.util.find_spec("pyarrow") is None:
        return None
    check_memory(size, printable_path(path))
    content = None
    if is_gzip(read_head(path, 2)):
        data = read_file(path)
        content = inflate(data, int.from_bytes(data[-4:], "little"), printable_path(path))
    with io.BytesIO(content) if content is not None else open(path, "rb", buffering=0) as file:
        lines, block = 0, b"\n"
        while part := file.read(BLOCK_BYTES):
            lines += part.count(b"\n")
            block = part
    lines += (not block.endswith(b"\n")) - has_header
    return ArrowCsv(os.fspath(path), content, delimiter, width, lines, has_header)
