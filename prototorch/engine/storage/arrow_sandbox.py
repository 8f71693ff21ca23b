"""The process that reads an untrusted Parquet or Feather file with Arrow's library: started by `arrow_source`.

The one line of standard input is JSON: the path, the kind and limits. The answer is a byte 0, a line of JSON with the
columns, and their bytes; or a byte 1, and the text of an error. Columns leave this process as plain bytes, in no format
of Arrow: the library checks files less strictly than it computes on them; a damaged one ends this process, no other.
"""

from __future__ import annotations

import json
import os
import sys
import types
from array import array
from typing import Any, BinaryIO


def _stub_package() -> None:
    """Register an empty package, so that importing the few modules needed does not import all of prototorch."""
    package = types.ModuleType("prototorch")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    sys.modules[package.__name__] = package


if __name__ == "__main__":
    _request = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = _request["python_path"]
    _stub_package()

from prototorch.engine.storage.process_limits import limit_process, memory_in_use  # noqa: E402 - found on the path set above

__all__ = ["columns_of", "read_table"]

BOOLEAN_GAP = 2  # beside 0 and 1
MAX_COLUMNS = 1 << 20


def read_table(path: str, kind: str, max_bytes: int) -> Any:
    """The table of a file: "parquet" or "feather". Raises ValueError for columns that are no plain values, or that have
    more than ``max_bytes``."""
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path, memory_map=False)
        schema, declared = (
            file.schema_arrow,
            sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)),
        )
        _check_schema(schema)
        if declared > max_bytes or file.metadata.num_rows * len(schema) > max_bytes:
            raise ValueError(f"its columns have more than {max_bytes:,} bytes")
        return file.read(use_threads=False)
    with pa.OSFile(path) as source:
        reader = pa.ipc.open_file(source)
        _check_schema(reader.schema)
        return reader.read_all()


def _check_schema(schema: Any) -> None:
    import pyarrow as pa

    if len(schema) > MAX_COLUMNS:
        raise ValueError(f"it has {len(schema):,} columns")
    for field in schema:
        inner = field.type.value_type if _is_list(field.type) or pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_nested(inner) or isinstance(inner, pa.BaseExtensionType):
            raise ValueError(
                f"the column {field.name!r} is of the type {field.type}, expected numbers, texts, dates or lists of "
                "them"
            )


def _is_list(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def columns_of(table: Any) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The columns of a table as descriptions (name, kind, bytes of each part) and their parts."""
    descriptions, parts = [], []
    for at, name in enumerate(table.column_names):
        kind, arrays = _column(table.column(at))
        descriptions.append({"name": name, "kind": kind, "sizes": [len(part) for part in arrays]})
        parts += arrays
    return descriptions, parts


def _column(column: Any) -> tuple[str, list[bytes]]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    type_ = column.type
    if _is_list(type_):
        if not (pa.types.is_string(type_.value_type) or pa.types.is_large_string(type_.value_type)):
            column = column.cast(pa.list_(pa.float64()))
        texts = [None if row is None else json.dumps(row) for row in column.to_pylist()]
        return "list", _text_parts(texts)
    if pa.types.is_dictionary(type_):
        column = column.cast(type_.value_type)
        type_ = column.type
    if pa.types.is_decimal(type_) or pa.types.is_float16(type_):
        column, type_ = column.cast(pa.float64()), pa.float64()
    if pa.types.is_boolean(type_):
        values = pc.fill_null(column.cast(pa.uint8()), BOOLEAN_GAP)
        return "boolean", [values.to_numpy().astype(np.uint8).tobytes()]
    if pa.types.is_integer(type_) and not column.null_count:
        if pa.types.is_uint64(type_):
            column = column.cast(pa.int64())
        return "integer", [column.to_numpy().astype("<i8").tobytes()]
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return "number", [column.to_numpy().astype("<f8").tobytes()]
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        dates = column.cast(pa.timestamp("us"), safe=False) if not getattr(type_, "tz", None) else column
        return "date", [dates.to_numpy().astype("datetime64[us]").astype("<i8").tobytes()]
    if pa.types.is_null(type_):
        return "number", [np.full(len(column), np.nan, "<f8").tobytes()]
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)):
        raise ValueError(f"a column is of the type {type_}, expected numbers, texts or dates")
    return "text", _text_parts(column.to_pylist())


def _text_parts(values: list[str | None]) -> list[bytes]:
    """The lengths of texts (-1: none) and their bytes."""
    texts = [None if text is None else text.encode("utf-8") for text in values]
    lengths = array("q", [-1 if text is None else len(text) for text in texts])
    return [lengths.tobytes(), b"".join(text for text in texts if text is not None)]


def _send(answers: BinaryIO, request: dict[str, Any]) -> None:
    try:
        table = read_table(request["path"], request["kind"], request["max_bytes"])
        descriptions, parts = columns_of(table)
        head = json.dumps({"rows": table.num_rows, "columns": descriptions}).encode()
    except Exception as error:  # the library may raise any exception on a damaged file
        answers.write(b"\1" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:2000])
        return
    answers.write(b"\0" + head + b"\n")
    for part in parts:
        answers.write(part)


def main() -> None:
    """Answer the request on standard input; messages of the library are discarded."""
    answers = os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        answers.write(b"\2" + str(error).encode("utf-8", "replace")[:200])
        answers.flush()
        return
    limit_process({"AS": memory_in_use() + _request["address_space"], "FSIZE": 0, "CORE": 0, "NOFILE": 64})
    _send(answers, _request)
    answers.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # skips the library's cleanup, which a damaged file could affect
