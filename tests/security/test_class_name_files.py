"""The class names of a weight set beside a text: no link and nothing but a regular file of bounded size is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prototorch.errors import FileError
from prototorch.interop.downloads.cache import read_record, record_path
from prototorch.interop.weight_sets.declaration import WeightSet
from prototorch.interop.weight_sets.registry import DeclaredSet


@pytest.mark.parametrize(
    ("kind", "message"),
    [("pipe", "is a pipe"), ("link", "symbolic link"), ("linked folder", "symbolic link"), ("folder", "is a folder"),
     ("large", "the limit is"), ("binary", "codec"), ("missing", "No such file")],
)  # fmt: skip
def test_class_names_are_read_from_regular_files_only(kind: str, message: str, tmp_path: Path):
    path = tmp_path / "classes" / "c.txt"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.txt").write_text("secret\n")
    if kind == "linked folder":
        path.parent.symlink_to(tmp_path / "elsewhere")
    else:
        path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere" / "c.txt")
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with open(path, "wb") as file:
            file.truncate((1 << 24) + 1)
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe")
    weights = WeightSet(
        name="s/x",
        model="m",
        address="https://h/f",
        format="F",
        system="torch",
        license="l",
        trained_by="t",
        classes="c",
    )
    with pytest.raises(FileError, match=f"(?s)the class names of s/x cannot be read: .*c.txt.*{message}"):
        DeclaredSet(weights, tmp_path / "m.proto").class_names()


def test_a_pipe_as_the_record_of_a_download_is_no_record(tmp_path: Path):
    os.mkfifo(record_path(tmp_path / "v.pth"))
    assert read_record(tmp_path / "v.pth") is None
