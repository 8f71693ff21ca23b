"""A text file of data is not read into memory as one line of hundreds of megabytes."""

from __future__ import annotations

import tracemalloc

import pytest

from prototorch.data.csv_reader import MAX_LINE_BYTES, read_csv
from prototorch.data.image_folder import MAX_LINE_BYTES as MAX_LIST_LINE
from prototorch.data.image_folder import open_image_list
from prototorch.data.image_io import ImageReader
from prototorch.errors import DataError


@pytest.mark.parametrize(("first", "line"), [("", 1), ("a,b\n1,2\n", 3)])
def test_a_long_line_of_a_csv_file(tmp_path, first, line):
    path = tmp_path / "long\x1b.csv"
    path.write_text(first + "1," * (MAX_LINE_BYTES // 2 + 1))
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"long\\x1b\.csv, line {line}: is longer than 16,777,216 bytes"):
        read_csv(path)
    assert tracemalloc.get_traced_memory()[1] < 3 * MAX_LINE_BYTES
    tracemalloc.stop()


def test_a_long_line_of_a_list(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("a.png 1\n" + "x" * (MAX_LIST_LINE + 1) + " 2\n")
    with pytest.raises(DataError, match=r"list\.txt, line 2: is longer than 65,536 bytes"):
        open_image_list(path, ImageReader())


def test_lines_up_to_the_limit(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("1,2\n" * 10 + "3," + " " * 3000 + "4\n")
    assert len(read_csv(path)) == 11
