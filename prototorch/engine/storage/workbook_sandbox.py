"""The process that reads an untrusted Excel or SQLite file: started by `workbook_source`.

The one line of standard input is JSON: the path, the kind, the name of the table, and limits. The answer is a byte 0
and JSON: the names of the columns, their values, and the number of each row; or a byte 1 and the text of an error; or a
byte 2 and the name of a missing package. A formula is the value that the file holds for it, and nothing in the file is
run: of SQLite tables alone are read, no views, triggers, functions or virtual tables.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import types
from typing import Any


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

__all__ = ["read_excel", "read_sqlite"]

MAX_COLUMNS = 1 << 14  # as Excel has
MAX_MEMBERS = 10_000  # of the archive that a workbook is
MAX_TEXT = 1 << 20  # characters of a cell
PROLOG_BYTES = 1 << 16  # in which a declaration of entities must be

#: the names of the columns, the values of each, and the number of each row
Columns = tuple[list[str], list[list[Any]], list[int]]


def read_excel(path: str, sheet: str | None, max_cells: int, max_bytes: int) -> Columns:
    """The cells of a sheet, by default the first one, whose first row with values holds the names of the columns.

    Raises ValueError for what is no table, and for more than ``max_cells`` cells or ``max_bytes`` bytes of XML.
    """
    import openpyxl

    _check_archive(path, max_bytes)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    names = book.sheetnames
    if sheet is not None and sheet not in names:
        raise ValueError(f"it has no sheet {sheet!r}; its sheets are {', '.join(map(repr, names[:12]))}")
    page = book[names[0] if sheet is None else sheet]
    if not hasattr(page, "iter_rows"):
        raise ValueError(f"its sheet {page.title!r} holds a chart and no cells")
    page.reset_dimensions()  # which the file may state wrongly
    header: list[str] = []
    values: list[list[Any]] = []
    numbers: list[int] = []
    for number, row in enumerate(page.iter_rows(values_only=True), 1):
        if all(cell is None for cell in row):
            continue
        if not header:
            header = _excel_header(row)
            values = [[] for _ in header]
            continue
        if any(cell is not None for cell in row[len(header) :]):
            raise ValueError(f"row {number} has more cells than the header, which has {len(header)}")
        for at, column in enumerate(values):
            column.append(_json_value(row[at] if at < len(row) else None, number, header[at]))
        numbers.append(number)
        if len(numbers) * len(header) > max_cells:
            raise ValueError(f"it has more than {max_cells:,} cells")
    return header, values, numbers


def _excel_header(row: tuple[Any, ...]) -> list[str]:
    cells = list(row)
    while cells and cells[-1] is None:
        del cells[-1]
    if len(cells) > MAX_COLUMNS:
        raise ValueError(f"it has {len(cells):,} columns")
    return ["" if cell is None else str(cell).strip() for cell in cells]


def _check_archive(path: str, max_bytes: int) -> None:
    """Raise ValueError for an archive that expands too far, or with a document that declares entities."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > max_bytes:
            raise ValueError(f"it expands to more than {max_bytes:,} bytes, or has more than {MAX_MEMBERS:,} parts")
        for member in members:
            if member.filename.endswith((".xml", ".rels")):
                with archive.open(member) as file:
                    head = file.read(PROLOG_BYTES)
                if b"<!DOCTYPE" in head or b"<!ENTITY" in head or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    raise ValueError("it holds XML with declarations of its own, which no workbook has")


def read_sqlite(path: str, table: str | None, max_cells: int, max_bytes: int) -> Columns:
    """The rows of a table; ``table`` may be None where there is one alone.

    Raises ValueError for a view or a virtual table, values that are bytes, and for more than ``max_cells`` values or
    ``max_bytes`` bytes of texts; sqlite3.Error for a damaged file.
    """
    import sqlite3
    import urllib.parse

    connection = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 24)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    kinds = {
        str(name): (kind, str(sql or ""))
        for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master")
        if kind in ("table", "view") and not str(name).startswith("sqlite_")
    }
    tables = [name for name, (kind, _) in kinds.items() if kind == "table"]
    if table is None and len(tables) != 1:
        raise ValueError(f'it has {len(tables)} tables; say which: table: "..." of {", ".join(map(repr, tables[:12]))}')
    name = tables[0] if table is None else table
    if name not in kinds:
        raise ValueError(f"it has no table {name!r}; it has {', '.join(map(repr, tables[:12]))}")
    kind, sql = kinds[name]
    if kind == "view" or sql.lstrip().upper().startswith("CREATE VIRTUAL"):
        what = "a view" if kind == "view" else "a virtual table"
        raise ValueError(f"{name!r} is {what}, whose statement is not run; save its rows as a table")

    quoted = '"' + name.replace('"', '""') + '"'
    for column, kind_of_column in ((row[1], row[6]) for row in connection.execute(f"PRAGMA table_xinfo({quoted})")):
        if kind_of_column:
            raise ValueError(f"its column {column!r} is computed, and expressions are not run; save its values")

    def authorize(action: int, first: str | None, *_: str | None) -> int:
        is_read = action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_READ and first == name)
        return sqlite3.SQLITE_OK if is_read else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    cursor = connection.execute(f"SELECT * FROM {quoted}")
    header = [str(column[0]) for column in cursor.description]
    if len(header) > MAX_COLUMNS:
        raise ValueError(f"it has {len(header):,} columns")
    values: list[list[Any]] = [[] for _ in header]
    count = num_bytes = 0
    for row in cursor:
        count += 1
        for at, cell in enumerate(row):
            values[at].append(_json_value(cell, count, header[at]))
            num_bytes += len(cell) if isinstance(cell, str) else 8
        if count * len(header) > max_cells or num_bytes > max_bytes:
            raise ValueError(f"it has more than {max_cells:,} values or {max_bytes:,} bytes")
    return header, values, list(range(1, count + 1))


def _json_value(value: Any, row: int, column: str) -> Any:
    """A cell as JSON has it; a date as a text."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ValueError(f"row {row}, column {column!r}: has a text of {len(value):,} characters")
        return value
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "seconds").replace(" 00:00:00", "")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):
        return value.isoformat()
    raise ValueError(f"row {row}, column {column!r}: holds {type(value).__name__}, expected a number, a text or a date")


def main() -> None:
    """Answer the request on standard input; messages of the libraries are discarded."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        if _request["kind"] == "excel":
            import openpyxl.reader.excel  # noqa: F401
        else:
            import sqlite3  # noqa: F401
    except ImportError as error:
        answers.write(b"\2" + str(error).encode("utf-8", "replace")[:200])
        answers.flush()
        return
    limit_process({"AS": memory_in_use() + _request["address_space"], "FSIZE": 0, "CORE": 0, "NOFILE": 64})
    read = read_excel if _request["kind"] == "excel" else read_sqlite
    try:
        columns = read(_request["path"], _request["table"], _request["max_cells"], _request["max_bytes"])
        answer = b"\0" + json.dumps(columns).encode("utf-8", "surrogatepass")
    except Exception as error:  # the libraries may raise any exception on a damaged file
        answer = b"\1" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:2000]
    answers.write(answer)
    answers.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # skips the libraries' cleanup, which a damaged file could affect
