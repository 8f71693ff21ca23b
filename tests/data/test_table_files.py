"""Tables in other formats than CSV: gzip, JSON lines, Parquet and Feather; files that are damaged or hostile."""

from __future__ import annotations

import datetime
import gzip
import json
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import prototorch as pt
from prototorch.data.tables.table_files import read_table_file
from prototorch.engine.storage import reading_process
from prototorch.errors import DataError, ResourceError
from prototorch.model.load import model_from_text

TEXT = """
name: "people"
input { name: "row"  shape: [none] }
Dense { name: "logits"  units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: sgd }
"""
CSV = """age,town,since,member,mood
31,Oslo,2020-02-29,true,good
,Bergen,2021-12-31,false,bad
47,Oslo,2019-06-03,,bad
20,,,true,good
"""
NUMBERS = "a,b,y\n1,2.5,0\n3,4,1\n-5,6,1\n"


def rows_of(text):
    header, *rows = [line.split(",") for line in text.splitlines()]

    def value(column, cell):
        if cell == "":
            return None
        if column == "member":
            return cell == "true"
        return cell if column in ("town", "since", "mood") else float(cell) if "." in cell else int(cell)

    return {name: [value(name, row[at]) for row in rows] for at, name in enumerate(header)}


def arrow(text):
    table = pa.table(rows_of(text))
    if "since" in table.column_names:
        at = table.column_names.index("since")
        table = table.set_column(at, "since", table["since"].cast(pa.date32()))
        table = table.set_column(1, "town", table["town"].dictionary_encode())
    return table


def json_lines(text):
    columns = rows_of(text)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows).encode()


WRITERS = {
    "t.csv.gz": lambda path, text: path.write_bytes(gzip.compress(text.encode())),
    "t.jsonl": lambda path, text: path.write_bytes(json_lines(text)),
    "t.jsonl.gz": lambda path, text: path.write_bytes(gzip.compress(json_lines(text))),
    "t.parquet": lambda path, text: pa.parquet.write_table(arrow(text), path),
    "t.feather": lambda path, text: pa.feather.write_feather(arrow(text), path, compression="lz4"),
    "t.arrow": lambda path, text: pa.feather.write_feather(arrow(text), path, compression="uncompressed"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_the_same_in_each_format(name, tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    WRITERS[name](tmp_path / name, CSV)
    models = []
    for path in (tmp_path / "t.csv", tmp_path / name):
        model = model_from_text(TEXT)
        model.fit(pt.Data(source=str(path), label="mood", missing="indicator"), verbose=0)
        models.append(model)
    expected, model = models
    assert model.table_columns == expected.table_columns
    predictions = [m.predict(path) for m in models for path in (tmp_path / "t.csv", tmp_path / name)]
    for one in predictions[1:]:
        np.testing.assert_array_equal(one, predictions[0])
    assert expected.evaluate(tmp_path / name) == expected.evaluate(tmp_path / "t.csv")


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_of_numbers_is_read_as_it_is(name, tmp_path):
    (tmp_path / "t.csv").write_text(NUMBERS)
    WRITERS[name](tmp_path / name, NUMBERS)
    model, other = model_from_text(TEXT), model_from_text(TEXT)
    model.fit(tmp_path / "t.csv", verbose=0)
    other.fit(tmp_path / name, verbose=0)
    assert model.table_columns == other.table_columns
    assert model.table_columns.encoding is None
    np.testing.assert_array_equal(other.predict(tmp_path / name), model.predict(tmp_path / "t.csv"))
    turned = "\n".join(",".join(reversed(line.split(","))) for line in NUMBERS.splitlines())
    WRITERS[name](tmp_path / f"turned-{name}", turned + "\n")
    np.testing.assert_array_equal(model.predict(tmp_path / f"turned-{name}"), model.predict(tmp_path / "t.csv"))
    assert model.evaluate(tmp_path / f"turned-{name}") == model.evaluate(tmp_path / "t.csv")


def test_values_of_arrow_keep_their_meaning(tmp_path):
    table = pa.table(
        {
            "big": pa.array([2**53 + 1, -1], pa.int64()),
            "gap": pa.array([1, None], pa.int32()),
            "half": pa.array([0.5, 2], pa.float16()),
            "cents": pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
            "flag": pa.array([True, None]),
            "at": pa.array([datetime.datetime(2020, 1, 1, 6, 30), None], pa.timestamp("ns")),
            "zone": pa.array([datetime.datetime(2020, 1, 1, 6), None], pa.timestamp("ms", "Europe/Oslo")),
            "word": pa.array(['Ærø\n,"', None], pa.dictionary(pa.int8(), pa.large_string())),
            "none": pa.nulls(2),
        }
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    columns = read_table_file(tmp_path / "t.parquet", True).columns
    assert columns["big"].tolist() == [2**53 + 1, -1]
    for name, first in (("gap", 1), ("half", 0.5), ("cents", 1.25)):
        assert columns[name][0] == first
        assert name == "half" or np.isnan(columns[name][1])
    assert columns["flag"].tolist() == ["true", None]
    assert columns["at"].tolist() == [datetime.datetime(2020, 1, 1, 6, 30), None]
    assert columns["zone"].tolist() == [datetime.datetime(2020, 1, 1, 6), None]
    assert columns["word"].tolist() == ['Ærø\n,"', None]
    assert np.isnan(columns["none"]).all()


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16] * 2, pa.binary(16)))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([[[1]], [[2]]]), "'x' is of the type list"),
        (pa.array([{"a": 1}, {"a": 2}]), "'x' is of the type struct"),
        (pa.array([b"a", b"b"]), "of the type binary"),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16] * 2, pa.binary(16))),
            "'x' is of the type extension",
        ),
    ],
)
def test_columns_that_are_no_plain_values_are_refused(values, words, tmp_path):
    pa.parquet.write_table(pa.table({"x": values, "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=f"t.parquet: cannot be read as parquet: .*{words}"):
        read_table_file(tmp_path / "t.parquet", True)


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
@pytest.mark.parametrize("damage", ["cut", "zeros", "noise", "tail", "head"])
def test_damaged_files_end_no_other_process(name, damage, tmp_path):
    WRITERS[name](tmp_path / name, CSV)
    data = bytearray((tmp_path / name).read_bytes())
    middle = len(data) // 2
    if damage == "cut":
        data = data[:middle]
    elif damage == "zeros":
        data[8 : middle + 8] = bytes(middle)
    elif damage == "noise":
        data[8:-8] = np.random.default_rng(0).bytes(len(data) - 16)
    elif damage == "tail":
        data[-8:-4] = b"\xff\xff\xff\x7f"
    else:
        data = data[:16]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=f"{name}: cannot be read as"):
        read_table_file(tmp_path / name, True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1}\n{"a": [1]}\n', r"the column 'a' holds values of several kinds .*int, list"),
        (b'{"a": 1}\n{"a": 1\n', "line 2: is no JSON object"),
        (b'{"a": 1}\n3\n', "line 2: expected a JSON object, got int"),
        (b'{"a": NaN}\n', "line 1: is no JSON object: NaN is no JSON"),
        (b'{"a": 1}\n{"a": "x"}\n', "'a' holds values of several kinds"),
        (b'{"a": "\xff"}\n', "is not UTF-8 text"),
        (gzip.compress(b"a,b\n1,2\n")[:-4], "gzip stream|declares|expand"),
        (gzip.compress(b"a,b\n1,2\n") + b"x", "gzip stream|declares|expand"),
    ],
)
def test_damaged_texts_are_refused_with_their_line(data, words, tmp_path):
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(DataError, match=words):
        read_table_file(tmp_path / "t", True)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    WRITERS["t.parquet"](tmp_path / "t.parquet", NUMBERS)
    without = [folder for folder in reading_process.sys.path if not os.path.isdir(os.path.join(folder, "pyarrow"))]
    monkeypatch.setattr(reading_process.sys, "path", without)
    with pytest.raises(ResourceError, match=r'pip install "prototorch-dl\[data\]"'):
        model_from_text(TEXT).fit(tmp_path / "t.parquet", verbose=0)
