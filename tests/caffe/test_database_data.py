"""Data layers: batches of Datums from databases, and their transformation beside a reference in NumPy."""

import time

import numpy as np
import pytest

from prototorch.caffe.data import open_blob_source
from prototorch.caffe.data.datum import encode_image_file
from prototorch.caffe.data.mean_file import encode_mean
from prototorch.data import DataWarning
from prototorch.errors import DataError
from tests.caffe.caffe_data import (
    data_layer,
    database_layer,
    datum_records,
    image_bytes,
    images,
    write_database,
    write_own_lmdb,
)

PIXELS = images(10)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Ten images of 3 x 6 x 7 as an LMDB, and their mean in mean.binaryproto."""
    folder = tmp_path_factory.mktemp("data")
    write_own_lmdb(folder / "db", datum_records(PIXELS))
    (folder / "mean.binaryproto").write_bytes(encode_mean(PIXELS.mean(0).astype(np.float32)))
    return folder


def take(layer, count=1, phase="TRAIN", **options):
    with open_blob_source(layer, phase, **{"seed": 0} | options) as source:
        return [source.next_batch() for _ in range(count)]


@pytest.mark.parametrize("file_format", ["LMDB", "LevelDB"])
def test_batches_go_on_at_the_start(tmp_path, file_format):
    write_database(tmp_path / "db", datum_records(PIXELS), file_format)
    layer = database_layer("db", 4, backend=file_format.upper())
    with open_blob_source(layer, "TRAIN", folders=[tmp_path]) as source:
        assert source.shapes == {"data": (4, 3, 6, 7), "label": (4,)}
        batches = [source.next_batch() for _ in range(6)]
        labels = np.concatenate([batch["label"] for batch in batches])
        np.testing.assert_array_equal(labels, np.arange(24) % 10)
        np.testing.assert_array_equal(np.concatenate([batch["data"] for batch in batches]), PIXELS[np.arange(24) % 10])
        assert {array.dtype.name for batch in batches for array in batch.values()} == {"float32"}
        for number in (4, 0, 5):
            source.seek(number)
            np.testing.assert_array_equal(source.next_batch()["label"], batches[number]["label"])


def test_the_content_decides_the_format_not_the_field(tmp_path):
    """`backend` is LEVELDB where a file does not say it: an LMDB is opened all the same."""
    write_own_lmdb(tmp_path / "db", datum_records(PIXELS))
    assert take(database_layer(tmp_path / "db", 2))[0]["data"].shape == (2, 3, 6, 7)


def test_one_top_gives_no_labels(database):
    assert list(take(database_layer(database / "db", 2, tops=["data"]))[0]) == ["data"]


def test_float_data_and_float64(tmp_path):
    pixels = np.random.default_rng(0).normal(size=(3, 2, 4, 5)).astype(np.float32)
    write_own_lmdb(tmp_path / "db", datum_records(pixels, [-1, 2**31 - 1, 7]))
    batch = take(database_layer(tmp_path / "db", 3, {"scale": 0.3}), dtype="float64")[0]
    np.testing.assert_array_equal(batch["data"], pixels.astype(np.float64) * 0.3)
    np.testing.assert_array_equal(batch["label"], [-1, 2**31 - 1, 7])
    assert batch["data"].dtype == np.float64


def expected_image(image, transform, top, left, flip, mean=None):
    """DataTransformer::Transform, element by element."""
    channels, height, width = image.shape
    crop = transform.get("crop_size", 0)
    rows, columns = (crop, crop) if crop else (height, width)
    values = np.float32(transform.get("mean_value", [0]))
    scale = np.float32(transform.get("scale", 1))
    out = np.empty((channels, rows, columns), np.float32)
    for c, h, w in np.ndindex(out.shape):
        pixel = np.float32(image[c, top + h, left + w])
        offset = mean[c, top + h, left + w] if mean is not None else values[c % len(values)]
        out[c, h, columns - 1 - w if flip else w] = (pixel - offset) * scale
    return out


TRANSFORMS = [
    {},
    {"scale": 0.00390625},
    {"mean_value": [104.0, 117.0, 123.0]},
    {"mean_value": [33.0], "scale": 0.017, "crop_size": 4},
    {"crop_size": 5, "mirror": True},
    {"mirror": True, "mean_file": "mean.binaryproto"},
    {"crop_size": 6, "mirror": True, "mean_file": "mean.binaryproto", "scale": 2.0},
]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_transformation(database, transform, phase):
    layer = database_layer(database / "db", 10, transform)
    batches = take(layer, 12, phase, folders=[database])
    mean = PIXELS.mean(0).astype(np.float32) if "mean_file" in transform else None
    crop = transform.get("crop_size", 0)
    tops = range(6 - crop + 1) if crop and phase == "TRAIN" else [(6 - crop) // 2 if crop else 0]
    lefts = range(7 - crop + 1) if crop and phase == "TRAIN" else [(7 - crop) // 2 if crop else 0]
    flips = [False, True] if transform.get("mirror") else [False]
    drawn = set()
    for number, image in enumerate(PIXELS):
        choices = {
            (top, left, flip): expected_image(image, transform, top, left, flip, mean)
            for top in tops
            for left in lefts
            for flip in flips
        }
        for batch in batches:
            matches = [place for place, out in choices.items() if np.array_equal(out, batch["data"][number])]
            assert len(matches) == 1
            drawn.add(matches[0])
    assert drawn == {(top, left, flip) for top in tops for left in lefts for flip in flips}


def test_a_seed_gives_the_same_draws_with_any_number_of_threads(database):
    layer = database_layer(database / "db", 10, {"crop_size": 4, "mirror": True})
    first, second = (np.stack([b["data"] for b in take(layer, 5, seed=4)]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    with open_blob_source(layer, "TRAIN", seed=4) as source:
        source.prefetch = 0
        np.testing.assert_array_equal(first, np.stack([source.next_batch()["data"] for _ in range(5)]))
    assert (first != np.stack([b["data"] for b in take(layer, 5, seed=5)])).any()
    unseeded = [np.stack([b["data"] for b in take(layer, 5, seed=None)]) for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).any()


def test_rand_skip_leaves_out_some_records(database):
    starts = {take(database_layer(database / "db", 3, rand_skip=5), seed=seed)[0]["label"][0] for seed in range(40)}
    assert starts == {0, 1, 2, 3, 4}
    with pytest.raises(DataError, match=r"rand_skip has drawn [\d,]+, but .* has 10 records"):
        take(database_layer(database / "db", 3, rand_skip=10**9))


def encoded_records(pixels, file_format="PNG"):
    return [(b"%08d" % i, encode_image_file(image_bytes(image, file_format), i)) for i, image in enumerate(pixels)]


def test_images_that_are_encoded(tmp_path):
    write_own_lmdb(tmp_path / "db", encoded_records(PIXELS))
    batch = take(database_layer(tmp_path / "db", 4))[0]
    np.testing.assert_array_equal(batch["data"], PIXELS[:4])
    gray = take(database_layer(tmp_path / "db", 4, {"force_gray": True}))[0]["data"]
    blue, green, red = PIXELS[:4].astype(float).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(gray[:, 0], 0.114 * blue + 0.587 * green + 0.299 * red, atol=1.01)
    write_own_lmdb(tmp_path / "gray", encoded_records(PIXELS[:, :1]))
    np.testing.assert_array_equal(take(database_layer(tmp_path / "gray", 4))[0]["data"], PIXELS[:4, :1])
    colored = take(database_layer(tmp_path / "gray", 4, {"force_color": True}))[0]["data"]
    np.testing.assert_array_equal(colored, PIXELS[:4, :1].repeat(3, 1))


def test_force_gray_of_pixels_is_reported(database):
    with pytest.warns(DataWarning, match="force_color and force_gray have no effect"):
        assert take(database_layer(database / "db", 2, {"force_gray": True}))[0]["data"].shape == (2, 3, 6, 7)


def test_a_batch_takes_the_size_of_its_first_image(tmp_path):
    small, large = images(1, (3, 4, 4))[0], images(1, (3, 5, 9))[0]
    write_own_lmdb(tmp_path / "db", encoded_records([small, large]))
    shapes = [batch["data"].shape for batch in take(database_layer(tmp_path / "db", 1), 3)]
    assert shapes == [(1, 3, 4, 4), (1, 3, 5, 9), (1, 3, 4, 4)]
    with pytest.raises(
        DataError, match=r"record '00000001': gives .* \[3, 5, 9\], but the batch began with \[3, 4, 4\]"
    ):
        take(database_layer(tmp_path / "db", 2))
    assert take(database_layer(tmp_path / "db", 2, {"crop_size": 4}))[0]["data"].shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"crop_size": 7}, r"crop_size is 7, but the image has 6 x 7 pixels"),
        ({"mean_value": [1.0, 2.0]}, r"has 2 mean_value, but the images have 3 channels; expected 1 or 3"),
        ({"mean_value": [1.0], "mean_file": "mean.binaryproto"}, "both a mean_file and mean_value"),
        ({"force_color": True, "force_gray": True}, "both force_color and force_gray"),
        ({"mean_file": "meen.binaryproto"}, r"mean file 'meen.binaryproto': there is no such file .*mean.binaryproto"),
        ({"mean_file": "other.binaryproto"}, r"\[3, 6, 7\], but the mean .*other.binaryproto \[3, 6, 6\]"),
        ({"mean_file": "db/data.mdb"}, "data.mdb: is no mean file"),
    ],
)
def test_transformations_that_do_not_fit(database, transform, message):
    (database / "other.binaryproto").write_bytes(encode_mean(np.zeros((3, 6, 6), np.float32)))
    with pytest.raises(DataError, match=rf"layer 'in' \(Data\): .*{message}"):
        take(database_layer(database / "db", 2, transform), folders=[database])


def test_records_that_do_not_fit(tmp_path):
    records = datum_records(PIXELS[:3])
    damaged = {
        "is no Datum": b"\xff\xff\xff",
        "Datum of channels, height, width .* with 126 values in data": records[0][1].replace(
            b"\x08\x03", b"\x08\x04", 1
        ),
        "is not an image": encode_image_file(b"GIF8 no", 1),
        r"with 0 values in float_data": b"",
    }
    for i, (message, value) in enumerate(damaged.items()):
        folder = write_own_lmdb(tmp_path / str(i), [*records, (b"9_bad", value)])
        with open_blob_source(database_layer(folder, 3), "TRAIN") as source:
            source.next_batch()
            with pytest.raises(DataError, match=f"record '9_bad': .*{message}|'9_bad': {message}"):
                source.next_batch()
    write_own_lmdb(tmp_path / "empty", [])
    with pytest.raises(DataError, match="the LMDB has no records"):
        take(database_layer(tmp_path / "empty", 3))
    with pytest.raises(DataError, match="batch_size must be 1 or more"):
        take(database_layer(tmp_path / "0", 0))
    with pytest.raises(DataError, match="no database is given"):
        take(data_layer("Data", "DataParameter", "data_param", batch_size=1))


def test_no_more_batches_are_in_memory_than_prefetch_allows(tmp_path, monkeypatch):
    write_own_lmdb(tmp_path / "db", encoded_records(PIXELS))
    with open_blob_source(database_layer(tmp_path / "db", 2, prefetch=2), "TRAIN") as source:
        begun = []
        original = source.make_batch
        monkeypatch.setattr(source, "make_batch", lambda number: begun.append(number) or original(number))
        source.next_batch()
        time.sleep(0.3)
        assert sorted(begun) == [0, 1, 2]
