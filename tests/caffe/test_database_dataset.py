"""Databases of Datums as the data of a native model."""

import numpy as np
import pytest

import prototorch as pt
import prototorch.model.model  # registers the format
from prototorch.caffe.data.datum import encode_image_file
from prototorch.data import open_source
from prototorch.data.image_io import ImageReader
from prototorch.data.read_limits import ReadLimits
from prototorch.data.sources import SourceOptions
from prototorch.errors import DataError, UsageError
from tests.caffe.caffe_data import datum_records, image_bytes, images, write_database, write_own_lmdb

PIXELS = images(12, (1, 8, 8))


@pytest.mark.parametrize("file_format", ["LMDB", "LevelDB"])
def test_samples_by_index(tmp_path, file_format):
    write_database(tmp_path / "db", datum_records(PIXELS), file_format)
    dataset = open_source(tmp_path / "db")["train"]
    assert len(dataset) == 12
    columns = dataset.read(np.array([3, 0, 11]))
    np.testing.assert_array_equal(columns["image"], PIXELS[[3, 0, 11]])
    assert columns["label"].tolist() == [3, 0, 11]
    assert dataset.origin(3).endswith("db: record '00000003_3.png'")


def test_a_model_trains_on_a_database(tmp_path):
    write_own_lmdb(tmp_path / "train.lmdb", datum_records(PIXELS, [i % 3 for i in range(12)]))
    (tmp_path / "net.proto").write_text(
        "input { shape: [1, 8, 8] }\npreprocess { Rescaling { scale: $(1 / 255) } }\nFlatten {}\nDense { units: 3 }\n"
        "compile { optimizer: SGD {} loss: SparseCategoricalCrossentropy { from_logits: true } }\n"
        'fit { data { source: "train.lmdb" } epochs: 2 batch_size: 4 }\n'
    )
    history = pt.load_model(tmp_path / "net.proto").fit(verbose=0)
    assert len(history.history["loss"]) == 2


def test_images_are_resized_to_what_a_model_takes(tmp_path):
    records = [
        (b"%d" % i, encode_image_file(image_bytes(p), i)) for i, p in enumerate([*images(2), images(1, (3, 9, 5))[0]])
    ]
    write_own_lmdb(tmp_path / "db", records)
    options = SourceOptions(reader=ImageReader((4, 5), "gray"))
    assert open_source(tmp_path / "db", options)["train"].read(np.arange(3))["image"].shape == (3, 1, 4, 5)
    with pytest.raises(DataError, match=r"record '2': has \[3, 9, 5\] of uint8, expected \[3, 6, 7\]"):
        open_source(tmp_path / "db")["train"].read(np.arange(3))


def test_limits_hold_for_the_files_of_a_database(tmp_path):
    write_own_lmdb(tmp_path / "outside", datum_records(PIXELS))
    (tmp_path / "inside" / "db").mkdir(parents=True)
    (tmp_path / "inside" / "db" / "data.mdb").symlink_to(tmp_path / "outside" / "data.mdb")
    path = str(tmp_path / "inside" / "db")
    limits = ReadLimits("model.h5", frozenset({path}), (str(tmp_path / "inside"),))
    with pytest.raises(UsageError, match="outside of"):
        open_source(path, SourceOptions(limits=limits))
    assert len(open_source(path)["train"]) == 12


def test_an_empty_database(tmp_path):
    write_own_lmdb(tmp_path / "db", [])
    with pytest.raises(DataError, match="the LMDB has no records"):
        open_source(tmp_path / "db")
