"""Tables as they come from other programs: each is read rightly, or refused with its line and what to do."""

from __future__ import annotations

import gzip
import tracemalloc

import numpy as np
import pytest

import prototorch as pt
from prototorch.data import arrow_csv, csv_reader
from prototorch.data.pipeline.samples import open_paths
from prototorch.errors import DataError
from prototorch.model.load import model_from_text

TEXT = """
input { name: "row"  shape: [none] }
Dense { name: "out"  units: 1 }
compile { loss: mse  optimizer: sgd }
"""
GOOD = "a,b,y\n1,2,3\n4,5,6\n7,8,9\n"
ROWS = [[1, 2], [4, 5], [7, 8]]
HEADER = "a;b;y\n"
ZEROS = b"\0" * 100

#: name -> content, the rows that are read, fields of the data block
READ = {
    "UTF-8 with a byte order mark": (b"\xef\xbb\xbf" + GOOD.encode(), ROWS, {}),
    "UTF-16": (GOOD.encode("utf-16"), ROWS, {}),
    "UTF-16, big endian": (b"\xfe\xff" + GOOD.encode("utf-16-be"), ROWS, {}),
    "semicolons": (GOOD.replace(",", ";").encode(), ROWS, {}),
    "tabs": (GOOD.replace(",", "\t").encode(), ROWS, {}),
    "bars": (GOOD.replace(",", "|").encode(), ROWS, {}),
    "line ends of Windows": (GOOD.replace("\n", "\r\n").encode(), ROWS, {}),
    "line ends of old Macs": (GOOD.replace("\n", "\r").encode(), ROWS, {}),
    "empty lines": (GOOD.replace("\n", "\n\n").encode(), ROWS, {}),
    "quotes": (b'"a","b","y"\n"1","2","3"\n"4","5","6"\n"7","8","9"\n', ROWS, {}),
    "a delimiter at the end": (GOOD.replace("\n", ",\n").encode(), ROWS, {}),
    "a delimiter at the end of rows": (GOOD.replace("\n", ",\n").replace("y,", "y").encode(), ROWS, {}),
    "gzip": (gzip.compress(GOOD.encode()), ROWS, {}),
    "decimal commas": (HEADER.encode() + b"1,5;2;3\n4,25;-5,5;6\n", [[1.5, 2], [4.25, -5.5]], {"decimal": ","}),
    "thousands": (b'a,b,y\n"1,234.5",2,3\n"12,345,678",5,6\n', [[1234.5, 2], [12345678, 5]], {"thousands": ","}),
    "thousands with points": (
        HEADER.encode() + b"1.234,5;2;3\n4;5;6\n", [[1234.5, 2], [4, 5]], {"thousands": ".", "decimal": ","}
    ),
    "thousands with apostrophes": (HEADER.encode() + b"1'234;2;3\n4;5;6\n", [[1234, 2], [4, 5]], {"thousands": "'"}),
    "thousands with narrow spaces": (
        (HEADER + "1\u202f234;2;3\n1\u00a0000 000;5;6\n").encode(), [[1234, 2], [1e6, 5]], {"thousands": " "}
    ),
}  # fmt: skip

#: name -> content, what the message says
REFUSED = {
    "Latin-1": (b"a,b,y\n1,2,3\n4,caf\xe9,6\n", "line 3: is not UTF-8 text .*save it as UTF-8"),
    "spaces": (
        GOOD.replace(",", " ").encode(),
        "has no column 'y'; it has 'a b y'. It has one column: columns",
    ),
    "colons": (GOOD.replace(",", ":").encode(), "It has one column"),
    "a quote that stays open": (b'a,b,y\n1,"2,3\n4,5,6\n7,8,9\n', "line 4: .*a quote .* is not closed"),
    "text behind a quote": (b'a,b,y\n1,"2"x,3\n4,5,6\n', "line 2: ',' expected after"),
    "a short row": (b"a,b,y\n1,2,3\n4,5\n7,8,9\n", "line 3: has 2 fields, expected 3"),
    "a long row": (b"a,b,y\n1,2,3\n4,5,6,7\n", "line 3: has 4 fields, expected 3 .*stands in double quotes"),
    "a column twice": (b"a,a,y\n1,2,3\n4,5,6\n", "the columns 1 and 2 have one name; give each a name of its own"),
    "mixed types": (b"a,b,y\n1,2,3\n4,x,6\n7,8,9\n", "line 3, column 'b': expected a number, got text of 1 character"),
    "commas": (HEADER.encode() + b"1,5;2;3\n4;5;6\n", "line 2, column 'a': .*decimal comma; .*decimal: \",\""),
    "thousands": (b'a,b,y\n"1,234.5",2,3\n4,5,6\n', "line 2, column 'a': .*separated thousands; .*thousands: \",\""),
    "two headers": (b"a,b,y\nkg,m,s\n1,2,3\n4,5,6\n", "line 2: .*a second header, or the units.* Remove the line"),
    "a header again": (b"a,b,y\n1,2,3\na,b,y\n4,5,6\n", "line 3: repeats the header; remove the line"),
    "a title": (b"Sales\na,b,y\n1,2,3\n4,5,6\n", "line 2: has 3 fields, expected 1 .*a title or a comment"),
    "a comment": (b"# by me\na,b,y\n1,2,3\n4,5,6\n", "line 2: has 3 fields, expected 1 .*a title or a comment"),
    "a sum": (b"a,b,y\n1,2,3\n4,5,6\nTotal,7,9\n", "line 4, column 'a': expected a number, got text of 5 characters"),
    "no header": (b"1,2,3\n4,5,6\n", "needs a header of column names|expected a header of column names"),
    "a header alone": (b"a,b,y\n", "has no rows"),
    "nothing": (b"", "is an empty file"),
    "empty lines alone": (b"\n\n\n", "is empty"),
    "a NUL byte": (b"a,b,y\n1,2\x00,3\n4,5,6\n", "line 2: has NUL characters"),
    "a tail of NUL bytes": (GOOD.encode() + ZEROS, "line 5: has NUL characters"),
    "infinity": (b"a,b,y\n1,inf,3\n4,5,6\n", "line 2.*(is inf|not finite)"),
    "a number that is too large": (b"a,b,y\n1,1e400,3\n4,5,6\n", "line 2.*(is inf|not finite)"),
    "hexadecimal": (b"a,b,y\n0x10,2,3\n4,5,6\n", "line 2, column 'a': expected a number"),
    "HTML": (b"<!DOCTYPE html><html><table><tr><td>1</td></tr>", "is HTML or XML, and no table"),
    "a JSON list": (b'[{"a": 1, "b": 2, "y": 3}]', "a JSON list; write a JSON object on each line"),
    "gzip that is cut": (gzip.compress(GOOD.encode())[:-9], "gzip stream|is it cut off|truncated"),
    "a long line": (b"a,b,y\n1," + b"x" * (1 << 25) + b",3\n", "line 2: is longer than 16,777,216 bytes"),
}


def write(folder, data):
    path = folder / "t.csv"
    path.write_bytes(data)
    return path


def rows_of(model, path):
    (columns,) = open_paths([str(path)], model.signature().without_targets, 32).groups
    return columns.dataset.column_array("row" if "row" in columns.dataset.columns else "x").tolist()


@pytest.mark.filterwarnings("ignore::prototorch.errors.DataWarning")  # of large values
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("name", READ)
def test_tables_that_are_read(tmp_path, name, typed):
    data, rows, fields = READ[name]
    path, model = write(tmp_path, data), model_from_text(TEXT)
    model.fit(
        pt.Data(source=str(path), label="y", **({"scale": "none"} if typed or fields else {}), **fields), verbose=0
    )
    assert rows_of(model, path) == rows


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_are_refused(tmp_path, name, typed):
    data, message = REFUSED[name]
    model, source = model_from_text(TEXT), str(write(tmp_path, data))
    with pytest.raises(DataError, match=message) as caught:
        model.fit(pt.Data(source=source, label="y", **({"missing": "mean"} if typed else {})), verbose=0)
    assert len(str(caught.value)) < 2000


def test_a_first_line_of_a_gigabyte_is_not_read_whole(tmp_path):
    path = tmp_path / "t.csv"
    with open(path, "wb") as file:
        file.write(b"a,b,")
        file.truncate(1 << 30)
    tracemalloc.start()
    with pytest.raises(DataError, match="line 1: is longer than"):
        csv_reader.read_csv(path, "y")
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_large_files_are_the_same_by_either_reader(tmp_path, monkeypatch, ending):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    columns = zip(rng.normal(size=3000), rng.normal(size=3000), rng.integers(0, 3, 3000), strict=True)
    data = ("a,b,y\n" + "".join(f"{x:.7g}, {z:.3e},{k}\n" for x, z, k in columns)).encode()
    path = tmp_path / f"t.csv{ending}"
    path.write_bytes(gzip.compress(data) if ending else data)
    monkeypatch.setattr(arrow_csv, "BLOCK_BYTES", 1 << 12)
    for arguments in ({}, {"label": "b", "features": ["y", "a"]}, {"label": ["a", "b"]}):
        datasets = []
        for limit in (1, 1 << 40):
            monkeypatch.setattr(arrow_csv, "MIN_BYTES", limit)
            datasets.append(csv_reader.read_csv(path, **arguments))
        large, small = datasets
        assert large.columns == small.columns
        assert large.table_columns == small.table_columns
        assert large.origin(7) == small.origin(7)
        for name in small.columns:
            np.testing.assert_array_equal(large.column_array(name), small.column_array(name))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2", "line 901: has 2 fields"),
        ("1,x,2", "line 901, column 'b': expected a number"),
        ('1,"2', "a quote that is opened|line 901"),
        ("1,0x2,2", "line 901, column 'b'"),
    ],
)
def test_mistakes_in_large_files_have_their_line(tmp_path, monkeypatch, row, message):
    monkeypatch.setattr(arrow_csv, "MIN_BYTES", 1)
    monkeypatch.setattr(arrow_csv, "BLOCK_BYTES", 1 << 10)
    lines = ["a,b,y", *["1,2,3"] * 899, row, *["4,5,6"] * 100]
    with pytest.raises(DataError, match=message):
        csv_reader.read_csv(write(tmp_path, "\n".join(lines).encode()), "y")
