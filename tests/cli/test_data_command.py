"""`prototorch data`: databases as Caffe's convert_imageset and compute_image_mean make them, and back to images."""

import json

import lmdb
import numpy as np
import plyvel
import pytest
from PIL import Image

from prototorch.caffe.data import open_blob_source
from prototorch.caffe.data.datum import encode_image_file, read_datum
from prototorch.caffe.data.images import decode_image, resize_image
from prototorch.caffe.data.mean_file import read_mean
from prototorch.cli.main import main
from tests.caffe.caffe_data import database_layer, datum_records, image_bytes, images, write_own_lmdb

PIXELS = images(4, (3, 6, 7))
LABELS = [3, 0, 3, 12]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Four PNG files in two folders, and a list of them."""
    monkeypatch.chdir(tmp_path)
    names = ["a/x y.png", "a/b.png", "c/d.png", "c/e.png"]
    for name, pixels in zip(names, PIXELS, strict=True):
        (tmp_path / "img" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "img" / name).write_bytes(image_bytes(pixels))
    (tmp_path / "list.txt").write_text("".join(f"{n} {label}\n" for n, label in zip(names, LABELS, strict=True)))
    return tmp_path


def data(*args):
    """Run the command; its exit code."""
    with pytest.raises(SystemExit) as end:
        main(["data", *map(str, args)])
    return end.value.code


def lmdb_records(path):
    with lmdb.open(str(path), readonly=True) as env, env.begin() as transaction:
        return list(transaction.cursor())


def test_a_list_becomes_an_lmdb_as_caffe_writes_it(folder):
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb") == 0
    records = lmdb_records("out.lmdb")
    assert [key for key, _ in records] == [
        b"00000000_a/x y.png",
        b"00000001_a/b.png",
        b"00000002_c/d.png",
        b"00000003_c/e.png",
    ]
    head = b"\x08\x03\x10\x06\x18\x07\x22\x7e"  # channels, height, width, and 126 bytes of data
    assert records[0][1] == head + PIXELS[0].tobytes() + b"\x28\x03" + b"\x38\x00"  # label, encoded: false
    for (_, value), pixels, label in zip(records, PIXELS, LABELS, strict=True):
        datum = read_datum(value, "x")
        np.testing.assert_array_equal(datum.image, pixels)
        assert datum.label == label


def test_leveldb_and_from_one_format_to_the_other(folder):
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb") == 0
    assert data("convert", "list.txt", "--root", "img", "-o", "out.leveldb") == 0
    assert data("convert", "out.leveldb", "-o", "again.lmdb") == 0
    assert data("convert", "out.lmdb", "--backend", "leveldb", "-o", "other") == 0
    expected = lmdb_records("out.lmdb")
    assert lmdb_records("again.lmdb") == expected
    for name in ("out.leveldb", "other"):
        with plyvel.DB(name) as database:
            assert list(database) == expected


def test_options_of_images(folder):
    args = ("convert", "list.txt", "--root", "img", "-o")
    assert data(*args, "gray.lmdb", "--gray", "--resize-height", 5, "--resize-width", 4) == 0
    gray = decode_image(image_bytes(PIXELS[0]), "x", "gray")
    np.testing.assert_array_equal(read_datum(lmdb_records("gray.lmdb")[0][1], "x").image, resize_image(gray, (5, 4)))
    assert data(*args, "encoded.lmdb", "--encoded") == 0
    assert [value for _, value in lmdb_records("encoded.lmdb")] == [
        encode_image_file(image_bytes(pixels), label) for pixels, label in zip(PIXELS, LABELS, strict=True)
    ]
    assert data(*args, "jpg.lmdb", "--encode-type", "jpg") == 0
    jpeg = read_datum(lmdb_records("jpg.lmdb")[0][1], "x", "color")
    assert jpeg.is_encoded
    assert jpeg.image.shape == (3, 6, 7)
    assert data(*args, "shuffled.lmdb", "--shuffle", "--seed", 1) == 0
    keys = [key for key, _ in lmdb_records("shuffled.lmdb")]
    assert [key[:9] for key in keys] == [b"%08d_" % i for i in range(4)]
    assert sorted(key[9:] for key in keys) == [b"a/b.png", b"a/x y.png", b"c/d.png", b"c/e.png"]
    assert [key[9:] for key in keys] != [b"a/x y.png", b"a/b.png", b"c/d.png", b"c/e.png"]


def test_images_that_cannot_be_read_are_left_out(folder, capsys):
    (folder / "list.txt").write_text("a/b.png 1\nlost.png 2\nc/d.png 3\n")
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb") == 4
    assert [key for key, _ in lmdb_records("out.lmdb")] == [b"00000000_a/b.png", b"00000002_c/d.png"]
    output = capsys.readouterr()
    assert "left out: " in output.err
    assert "lost.png" in output.err
    assert "out.lmdb: 2 images, an LMDB" in output.out


def test_outputs_are_whole_or_not_there(folder, capsys):
    (folder / "img" / "c" / "e.png").write_bytes(image_bytes(images(1, (3, 5, 5))[0]))
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb", "--check-size") == 4
    assert "[3, 5, 5], but the first image [3, 6, 7]" in capsys.readouterr().err
    assert not list(folder.glob("*out.lmdb*"))
    assert not list(folder.glob(".out*"))
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb") == 0
    before = lmdb_records("out.lmdb")
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb", "--gray") == 2
    assert "out.lmdb: exists; --force replaces it" in capsys.readouterr().err
    assert lmdb_records("out.lmdb") == before
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb", "--gray", "--force") == 0
    assert lmdb_records("out.lmdb") != before
    assert sorted(path.name for path in folder.iterdir()) == ["img", "list.txt", "out.lmdb"]


def test_a_folder_of_classes_and_back(folder):
    assert data("convert", "img", "-o", "out.lmdb") == 0
    records = lmdb_records("out.lmdb")
    assert [(key, read_datum(value, "x").label) for key, value in records] == [
        (b"00000000_a/b.png", 0), (b"00000001_a/x y.png", 0), (b"00000002_c/d.png", 1), (b"00000003_c/e.png", 1),
    ]  # fmt: skip
    assert data("convert", "out.lmdb", "-o", "back") == 0
    assert (folder / "back" / "list.txt").read_text().splitlines() == [
        "0/00000000_b.png 0",
        "0/00000001_xy.png 0",
        "1/00000002_d.png 1",
        "1/00000003_e.png 1",
    ]
    assert data("convert", "back/list.txt", "-o", "again.lmdb") == 0
    assert [value for _, value in lmdb_records("again.lmdb")] == [value for _, value in records]


def test_keys_do_not_decide_where_images_are_written(folder):
    record = datum_records(PIXELS[:1])[0][1]
    write_own_lmdb(folder / "db", [(b"../../evil.png", record), (b"/etc/x\0y", record), (b"\xff\xff", record)])
    assert data("convert", "db", "-o", "back") == 0
    assert sorted(path.name for path in (folder / "back" / "0").iterdir()) == [
        "00000000_evil.png",
        "00000001_xy.png",
        "00000002.png",
    ]
    assert not (folder.parent / "evil.png").exists()


def test_a_data_set_becomes_a_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert data("convert", "fashion-mnist-mini", "--split", "test", "-o", "test.lmdb") == 0
    with open_blob_source(database_layer("test.lmdb", 3, {"scale": 0.00390625}), "TEST") as source:
        assert source.shapes["data"] == (3, 1, 28, 28)
        assert source.next_batch()["data"].max() < 1


def test_the_mean_has_caffes_sums(folder, capsys):
    assert data("convert", "list.txt", "--root", "img", "-o", "out.lmdb") == 0
    capsys.readouterr()
    assert data("mean", "out.lmdb", "-o", "mean.binaryproto", "--json") == 0
    got = json.loads(capsys.readouterr().out)
    total = np.zeros((3, 6, 7), np.float32)
    for pixels in PIXELS:
        total += pixels.astype(np.float32)
    np.testing.assert_array_equal(read_mean(folder / "mean.binaryproto"), total / np.float32(4))
    np.testing.assert_allclose(got["mean_value"], (total / 4).mean((1, 2)), rtol=1e-6)
    assert (folder / "mean.binaryproto").read_bytes()[:8] == b"\x08\x01\x10\x03\x18\x06\x20\x07"
    assert data("mean", "out.lmdb", "-o", "mean.binaryproto") == 2
    assert data("mean", "out.lmdb") == 0
    assert "mean_value channel [2]:" in capsys.readouterr().out
    with open_blob_source(
        database_layer("out.lmdb", 4, {"mean_file": "mean.binaryproto"}), "TEST", folders=[folder]
    ) as source:
        np.testing.assert_allclose(source.next_batch()["data"].mean(0), 0, atol=1e-4)


def test_show(folder, capsys):
    write_own_lmdb(folder / "db", datum_records(PIXELS, LABELS))
    assert data("show", "db") == 0
    text = capsys.readouterr().out
    for line in ("LMDB, 4 records", "3 x 6 x 7  4 images", "label 3  2 images", "'00000000_0.png' to '00000003_3.png'"):
        assert line in text
    assert data("show", "db", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["encoded"], found["labels"]) == (4, 0, {"0": 1, "3": 2, "12": 1})


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("show", "lost"), 4, "there is no such file"),
        (("show", "img"), 4, "neither an LMDB"),
        (("convert", "lost.txt", "-o", "x.lmdb"), 4, "there is no such file"),
        (("convert", "list.txt", "-o", "x.lmdb", "--resize-width", "3"), 2, "give both, or none"),
        (("convert", "list.txt", "--root", "img", "-o", "x", "--encode-type", "xyz"), 2, "format 'xyz' is not known"),
        (("convert", "list.txt", "--root", "img", "-o", "none/x"), 5, "cannot be written"),
        (("convert", "db", "-o", "x", "--gray"), 2, "a database is converted as it is: --gray"),
        (("mean", "mixed"), 4, "a mean needs images of one size"),
    ],
)
def test_mistakes(folder, capsys, args, code, message):
    write_own_lmdb(folder / "db", datum_records(PIXELS))
    write_own_lmdb(folder / "mixed", datum_records([*PIXELS, images(1, (3, 4, 4))[0]]))
    assert data(*args) == code
    assert message in capsys.readouterr().err


def test_an_image_with_a_palette_becomes_color(folder):
    Image.fromarray(PIXELS[0][0]).convert("P").save(folder / "p.png")
    (folder / "one.txt").write_text("p.png 1\n")
    assert data("convert", "one.txt", "-o", "p.lmdb") == 0
    assert read_datum(lmdb_records("p.lmdb")[0][1], "x").image.shape == (3, 6, 7)
