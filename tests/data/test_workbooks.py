"""Excel workbooks and SQLite databases as tables; hostile files of both, and of Parquet and Feather."""

from __future__ import annotations

import datetime
import io
import sqlite3
import warnings
import zipfile

import numpy as np
import pytest

import prototorch as pt
from prototorch.data.sources import is_array_file
from prototorch.data.tables.table_files import read_table_file, table_kind
from prototorch.engine.storage import workbook_source
from prototorch.errors import DataError, ResourceError
from prototorch.model.load import model_from_text

TEXT = """
input { name: "row"  shape: [none] }
Dense { name: "logits"  units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: sgd }
"""
ROWS = [
    ("age", "town", "since", "member", "mood"),
    (31, "Oslo", datetime.date(2020, 2, 29), True, "good"),
    (None, "Bergen", datetime.date(2021, 12, 31), False, "bad"),
    (47.5, "Oslo", datetime.date(2019, 6, 3), None, "bad"),
    (20, None, None, True, "good"),
]
SHEET = "xl/worksheets/sheet1.xml"


def csv_file(path):
    cells = [["" if c is None else str(c).lower() if isinstance(c, bool) else str(c) for c in row] for row in ROWS]
    path.write_text("\n".join(",".join(row) for row in cells) + "\n")
    return path


def excel(path, rows=ROWS, title="people"):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(["x"])
    book.save(path)
    return path


def database(path, rows=ROWS, statements=()):
    with sqlite3.connect(path) as connection:
        names = ", ".join(f'"{name}"' for name in rows[0])
        connection.execute(f"CREATE TABLE people ({names})")
        marks = ", ".join("?" * len(rows[0]))
        dated = [tuple(str(c) if isinstance(c, datetime.date) else c for c in row) for row in rows[1:]]
        connection.executemany(f"INSERT INTO people VALUES ({marks})", dated)
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


@pytest.mark.parametrize("name", ["people.xlsx", "people.db"])
def test_a_workbook_is_the_same_table_as_a_csv_file(tmp_path, name):
    path = excel(tmp_path / name) if name.endswith("xlsx") else database(tmp_path / name)
    models = []
    for source in (csv_file(tmp_path / "people.csv"), path):
        model = model_from_text(TEXT)
        flag = pt.data.Column(name="member", type="boolean")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(pt.Data(source=str(source), label="mood", missing="indicator", column=[flag]), verbose=0)
        models.append(model)
    expected, model = models
    for ours, theirs in zip(model.table_columns.encoding.columns, expected.table_columns.encoding.columns, strict=True):
        assert ours == theirs
    np.testing.assert_array_equal(model.predict(path), expected.predict(tmp_path / "people.csv"))
    assert not is_array_file(path)


def test_a_sheet_and_a_table_are_named(tmp_path):
    path = excel(tmp_path / "t.xlsx")
    assert list(read_table_file(path, True).columns) == list(ROWS[0])
    with pytest.raises(DataError, match="it has no rows"):
        read_table_file(path, True, "other")
    with pytest.raises(DataError, match="no sheet 'x'; its sheets are 'people', 'other'"):
        read_table_file(path, True, "x")
    path = database(tmp_path / "t.db", statements=["CREATE TABLE other (a)", "INSERT INTO other VALUES (3)"])
    assert read_table_file(path, True, "other").columns["a"].tolist() == [3]
    with pytest.raises(DataError, match=r"it has 2 tables; say which: table: \"...\" of 'people', 'other'"):
        read_table_file(path, True)
    model = model_from_text(TEXT)
    model.fit(pt.Data(source=str(path), table="people", label="mood", missing="indicator"), verbose=0)
    assert len(model.predict(path)) == 4  # the table of the training
    with pytest.raises(DataError, match="table: 'x' is for SQLite and Excel files"):
        read_table_file(csv_file(tmp_path / "t.csv"), True, "x")


def test_formulas_are_the_values_that_the_file_holds(tmp_path):
    path = excel(tmp_path / "t.xlsx", [("a", "b"), (1, "=A2*2"), (2, "=WEBSERVICE(A2)")])
    columns = read_table_file(path, True).columns  # no program has computed them
    assert np.isnan(columns["b"].astype(float)).all()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[SHEET] = (
        parts[SHEET]
        .replace(b"<f>A2*2</f><v></v>", b"<f>A2*2</f><v>7</v>")
        .replace(b"<f>A2*2</f><v />", b"<f>A2*2</f><v>7</v>")
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert read_table_file(path, True).columns["b"][0] == 7


def test_numbers_among_texts_of_a_sheet_are_found_with_their_row(tmp_path):
    path = excel(tmp_path / "t.xlsx", [("a", "y"), (1, 0), ("x", 1), (2.5, 0), (3, 1)])
    with pytest.raises(DataError, match="line 3, column 'a': expected a number, got text of 1 character"):
        model_from_text(TEXT).fit(pt.Data(source=str(path), label="y"), verbose=0)


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    path = excel(tmp_path / "t.xlsx")
    monkeypatch.setattr(workbook_source, "ask_reading_process", lambda *_: b"\2No module named 'openpyxl'")
    with pytest.raises(ResourceError, match=r"pip install \"prototorch-dl\[excel\]\"; or save it as CSV UTF-8"):
        read_table_file(path, True)


# ---------------------------------------------------------------- hostile files


def archive_of(parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def workbook_with(tmp_path, change):
    """A workbook whose sheet's XML is changed."""
    path = excel(tmp_path / "t.xlsx")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[SHEET] = change(parts[SHEET])
    path.write_bytes(archive_of(parts))
    return path


LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)
OUTSIDE = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


def strip_declaration(xml):
    return xml[xml.index(b"<worksheet") :]


def damaged_page(path):
    data = bytearray(path.read_bytes())
    data[4096:4200] = b"\xff" * 104
    path.write_bytes(data)
    return path


HOSTILE_SHEETS = {
    "entities that multiply": (lambda xml: LAUGHS + strip_declaration(xml), "declarations of its own"),
    "an entity of a file": (lambda xml: OUTSIDE + strip_declaration(xml), "declarations of its own"),
    "a part that expands": (lambda xml: xml + b" " * (1 << 28), "expands to more than"),
    "XML that is cut": (lambda xml: xml[: len(xml) // 2], "cannot be read as an Excel workbook"),
    "a column far to the right": (lambda xml: xml.replace(b'r="E3"', b'r="XFD3"'), "row 3 has more cells|cells"),
}
HOSTILE_STATEMENTS = {
    "a view": (["DROP TABLE people", "CREATE VIEW people AS SELECT 1 AS a"], "'people' is a view"),
    "a view of endless rows": (
        [
            "DROP TABLE people",
            "CREATE VIEW people AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        ],
        "'people' is a view",
    ),
    "a virtual table": (
        ["DROP TABLE people", "CREATE VIRTUAL TABLE people USING fts5(a)"],
        "'people' is a virtual table",
    ),
    "a computed column": (
        ["ALTER TABLE people ADD COLUMN z GENERATED ALWAYS AS (hex(zeroblob(1000)))"],
        "its column 'z' is computed",
    ),
    "a blob": (["UPDATE people SET town = x'00ff'"], "holds bytes, expected"),
    "a huge text": (["UPDATE people SET town = hex(zeroblob(2000000))"], "a text of 4,000,000 characters"),
    "a huge blob": (["UPDATE people SET town = zeroblob(50000000)"], "too big|holds bytes"),
}


@pytest.mark.parametrize("name", HOSTILE_SHEETS)
def test_hostile_workbooks_are_refused(tmp_path, name):
    change, message = HOSTILE_SHEETS[name]
    path = workbook_with(tmp_path, change)
    with pytest.raises(DataError, match=message):
        read_table_file(path, True)


@pytest.mark.parametrize("name", HOSTILE_STATEMENTS)
def test_hostile_databases_are_refused(tmp_path, name):
    statements, message = HOSTILE_STATEMENTS[name]
    try:
        path = database(tmp_path / "t.db", statements=statements)
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite cannot write it: {error}")
    with pytest.raises(DataError, match=message):
        read_table_file(path, True, "people")


def test_a_trigger_does_not_run_and_the_file_stays_as_it_is(tmp_path):
    statements = [
        "CREATE TABLE log (a)",
        "CREATE TRIGGER t AFTER INSERT ON people BEGIN INSERT INTO log VALUES (1); END",
    ]
    path = database(tmp_path / "t.db", statements=statements)
    before = path.read_bytes()
    assert len(read_table_file(path, True, "people")) == 4
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["t.db"]  # no journal


def test_damaged_databases_are_refused(tmp_path):
    path = database(tmp_path / "t.db", [("a", "b"), *((i, "x" * 50) for i in range(2000))])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="cannot be read as an SQLite database"):
        read_table_file(path, True)
    path.write_bytes(data)
    assert table_kind(path) == "sqlite"
    with pytest.raises(DataError, match="cannot be read as an SQLite database"):
        read_table_file(damaged_page(path), True)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 500)
    with pytest.raises(DataError, match="cannot be read as an SQLite database"):
        read_table_file(path, True)


def test_an_archive_that_only_looks_like_a_workbook_is_refused(tmp_path):
    path = tmp_path / "t.xlsx"
    pytest.importorskip("openpyxl")
    path.write_bytes(archive_of({"[Content_Types].xml": b"<a/>", "xl/workbook.xml": b"<b/>"}))
    with pytest.raises(DataError, match="cannot be read as an Excel workbook"):
        read_table_file(path, True)
    np.savez(tmp_path / "t.npz", x=np.zeros(2))
    assert table_kind(tmp_path / "t.npz") is None
    assert is_array_file(tmp_path / "t.npz")


def test_parquet_and_feather_of_extension_types_and_lying_sizes_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    opaque = pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "code", "vendor"), pa.array([1, 2], pa.int32()))
    parquet.write_table(pa.table({"x": opaque}), tmp_path / "t.parquet")
    feather.write_feather(pa.table({"x": opaque}), tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        with pytest.raises(DataError, match="'x' is of the type extension"):
            read_table_file(tmp_path / name, True)
    zeros = pa.table({"x": pa.array(np.zeros(60_000_000))})
    parquet.write_table(zeros, tmp_path / "zeros.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "zeros.parquet").stat().st_size < 1 << 20
    with pytest.raises(DataError, match="its columns have more than"):
        read_table_file(tmp_path / "zeros.parquet", True)
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data[:-9] + b"\xff\xff\xff" + data[-6:])
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read_table_file(tmp_path / "t.parquet", True)
