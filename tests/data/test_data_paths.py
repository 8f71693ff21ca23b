"""Data paths of a text: relative to the text first, then to the working directory; the message says where it looked."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.data import open_source
from prototorch.errors import DataError, TextError
from prototorch.model.diagnose import check_model

TEXT = """
name: "paths"
input { name: "x"  shape: [2] }
Dense { name: "price"  units: 1 }
compile { loss: mse }
fit { data { source: "SOURCE" } }
"""
TABLE = "a,b,price\n" + "".join(f"{i},{i % 7},{i * 2}\n" for i in range(30))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working directory with the folder ``nets``, where ``m.proto`` and its data ``data/t_1.csv`` lie."""
    (tmp_path / "nets" / "data").mkdir(parents=True)
    (tmp_path / "nets" / "m.proto").write_text(TEXT.replace("SOURCE", "data/t_1.csv"))
    (tmp_path / "nets" / "data" / "t_1.csv").write_text(TABLE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def num_samples(model: pt.Model) -> int:
    return len(model.fit_block.data.open())


def test_relative_to_the_text_then_to_the_working_directory(project):
    assert num_samples(pt.load_model("nets/m.proto")) == 30
    assert num_samples(pt.load_model(project / "nets" / "m.proto")) == 30
    (project / "data").mkdir()
    (project / "data" / "t_1.csv").write_text(TABLE[: TABLE.index("20,")])
    assert num_samples(pt.load_model("nets/m.proto")) == 30  # the text's folder comes first
    assert num_samples(pt.load_model("nets/m.proto", overrides=["fit.data.source=data/t_1.csv"])) == 20  # not for --set
    (project / "nets" / "data" / "t_1.csv").unlink()
    assert num_samples(pt.load_model("nets/m.proto")) == 20


def test_a_saved_model_finds_the_data_of_its_text(project):
    model = pt.load_model("nets/m.proto")
    model.fit(verbose=0)
    os.mkdir("out")
    model.save("out/m.h5")
    assert pt.load_model("out/m.h5").evaluate().keys() == {"loss"}
    assert 'source: "nets/data/t_1.csv"' in pt.load_model("out/m.h5").to_text()


def test_the_message_says_where_it_looked(project):
    (project / "nets" / "data" / "t_1.csv").rename(project / "nets" / "data" / "t_2.csv")
    words = rf"data/t_1.csv: there is no such file or folder in {project}/nets or {project}.* Did you mean .*t_2.csv"
    with pytest.raises(DataError, match=words):
        pt.load_model("nets/m.proto").fit(verbose=0)
    with pytest.raises(TextError, match=rf"m.proto:6:22: .*in {project}/nets or {project}"):
        check_model("nets/m.proto")


@pytest.mark.parametrize(("name", "meant"), [("fashion-mnist-mimi", "fashion-mnist-mini"), ("MNIST", "mnist")])
def test_names_of_data_sets_are_suggested(name, meant):
    with pytest.raises(DataError, match=f"Did you mean '{meant}'"):
        open_source(name)


def test_a_list_whose_images_are_missing(project):
    (project / "list.txt").write_text("# path label\na.png 0\nb.png 1\n")
    words = rf"list.txt, line 2: there is no image {project}/a.png \(nor the next 1\); paths in a list are relative"
    with pytest.raises(DataError, match=words):
        open_source(project / "list.txt")
    Image.fromarray(np.zeros((3, 3), np.uint8)).save(project / "b.png")
    data = open_source(project / "list.txt")["train"]
    with pytest.raises(DataError, match=rf"list.txt, line 2: {project}/a.png: cannot be opened"):
        data.read(np.array([0, 1]))


def test_a_damaged_image_names_the_way_on(project):
    for i in range(20):
        os.makedirs(f"photos/{'ab'[i % 2]}", exist_ok=True)
        Image.fromarray(np.full((3, 3), i, np.uint8)).save(f"photos/{'ab'[i % 2]}/{i}.png")
    (project / "photos/a/4.png").write_bytes(b"")
    data = open_source("photos")["train"]
    with pytest.raises(DataError, match=r"photos/a/4.png: is an empty file; data { on_error: skip } leaves"):
        list(pt.data.Loader(data, 4, threads=0))
