"""Pictures: decoding, and folders with files that are broken in every way."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from prototorch.data import Data, ImageReader, Loader, SampleError, open_image_files, open_source
from prototorch.data.image_folder import find_image_files, open_image_folder, open_image_list
from prototorch.data.sources import SourceOptions
from prototorch.errors import DataError

READER = ImageReader(size=(8, 8))


def encoded(mode="RGB", size=(8, 8), form="PNG", seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    shape = (size[1], size[0], len(mode)) if len(mode) > 1 else (size[1], size[0])
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, shape, np.uint8), mode if mode == "CMYK" else None).save(file, form, **kwargs)
    return file.getvalue()


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).transpose(2, 0, 1)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width, height):
    """A PNG file that promises a size and holds nothing of it."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


# ---------------------------------------------------------------- decoding


@pytest.mark.parametrize("form", ["PNG", "BMP", "PPM", "TIFF"])
def test_lossless_formats_give_their_pixels(form):
    data = encoded(size=(5, 7), form=form)
    got = ImageReader().decode(data, "x")
    assert got.shape == (3, 7, 5)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, pixels(data))


@pytest.mark.parametrize("form", ["JPEG", "GIF", "WEBP"])
def test_other_formats(form):
    assert ImageReader((4, 4)).decode(encoded("L", form=form), "x").shape == (3, 4, 4)


def test_grey_colour_and_alpha():
    assert ImageReader(color="gray").decode(encoded("RGB"), "x").shape == (1, 8, 8)
    grey = encoded("L")
    rgb = ImageReader().decode(grey, "x")
    np.testing.assert_array_equal(rgb[0], rgb[2])
    np.testing.assert_array_equal(rgb[:1], ImageReader(color="gray").decode(grey, "x"))
    assert ImageReader().decode(encoded("RGBA"), "x").shape == (3, 8, 8)
    assert ImageReader().decode(encoded("LA"), "x").shape == (3, 8, 8)


def test_palette_with_transparency():
    file = io.BytesIO()
    picture = Image.fromarray(np.zeros((8, 8, 3), np.uint8)).convert("P")
    picture.save(file, "PNG", transparency=bytes(range(256)))
    assert ImageReader().decode(file.getvalue(), "x").shape == (3, 8, 8)


def test_sixteen_bits_are_scaled_to_eight():
    file = io.BytesIO()
    Image.fromarray(np.array([[0, 256, 65535]], np.uint16)).save(file, "PNG")
    assert ImageReader(color="gray").decode(file.getvalue(), "x").tolist() == [[[0, 1, 255]]]


def test_floating_point_pictures_are_refused():
    file = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), np.float32)).save(file, "TIFF")
    with pytest.raises(DataError, match="floating-point"):
        ImageReader().decode(file.getvalue(), "x")


def test_the_cameras_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(size=(4, 6), exif=exif)
    got = ImageReader().decode(data, "x")
    np.testing.assert_array_equal(got, np.rot90(pixels(data), -1, axes=(1, 2)))


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_fits_give_the_size(fit):
    white = io.BytesIO()
    Image.new("L", (40, 20), 255).save(white, "PNG")
    got = ImageReader((10, 10), "gray", fit).decode(white.getvalue(), "x")
    assert got.shape == (1, 10, 10)
    assert (got == 255).all() == (fit != "pad")


# ---------------------------------------------------------------- broken ones

BROKEN = {
    "empty": b"",
    "truncated_png": encoded(size=(64, 64))[:900],
    "truncated_jpeg": encoded(form="JPEG", size=(64, 64))[:500],
    "text": b"this is not a picture\n" * 20,
    "wrong_checksum": encoded(size=(64, 64))[:200] + b"\0\0\0\0" + encoded(size=(64, 64))[204:],
    "huge_size": png_of(20000, 20000),
    "larger_than_allowed": png_of(9000, 9000),
    "no_size": png_of(0, 0),
    "too_few_lines": png_of(500, 500),
    "pdf": b"%PDF-1.7\n" + bytes(100),
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n",
    "head_only": b"\x89PNG\r\n\x1a\n",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.filterwarnings("default::PIL.Image.DecompressionBombWarning")
def test_broken_pictures_are_data_errors_with_the_name(kind, tmp_path):
    path = tmp_path / f"{kind}.png"
    path.write_bytes(BROKEN[kind])
    with pytest.raises(DataError, match=f"{kind}.png: "):
        READER.read(path)


@pytest.mark.parametrize(("width", "height"), [(8193, 8192), (1 << 26, 2), (9000, 9000)])
@pytest.mark.filterwarnings("default::PIL.Image.DecompressionBombWarning")
def test_the_size_is_checked_before_the_pixels_are_decoded(width, height, tmp_path, monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda image: pytest.fail("the pixels were decoded"))
    (tmp_path / "bomb.png").write_bytes(png_of(width, height))
    with pytest.raises(DataError, match=rf"bomb.png: has {width} x {height} pixels; the limit is 67,108,864"):
        READER.read(tmp_path / "bomb.png")


def test_bytes_changed_anywhere_raise_only_data_errors():
    rng = np.random.default_rng(0)
    for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM"):
        good = encoded(form=form, size=(16, 16))
        for _ in range(60):
            data = bytearray(good)
            for _ in range(rng.integers(1, 5)):
                data[rng.integers(len(data))] = rng.integers(256)
            message, shape = "x: ", (3, 8, 8)
            try:
                shape = READER.decode(data, "x").shape
            except DataError as error:
                message = str(error)
            assert message.startswith("x: ")
            assert shape == (3, 8, 8)


def make_folder(root, classes=("cat", "dog"), count=5):
    for c, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(count):
            (root / name / f"{i:03}.png").write_bytes(encoded(seed=100 * c + i))
    return root


def spoil(root):
    """Every kind of bad file, beside the good ones of class cat; gives their names."""
    for kind, data in BROKEN.items():
        (root / "cat" / f"bad_{kind}.png").write_bytes(data)
    (root / "cat" / "bad_zero.png").symlink_to("/dev/zero")
    (root / "cat" / "bad_gone.png").symlink_to(root / "nowhere.png")
    (root / "cat" / "bad_folder.png").symlink_to(root / "dog")
    os.mkfifo(root / "cat" / "bad_pipe.png")
    names = {f"bad_{kind}.png" for kind in BROKEN}
    return names | {"bad_zero.png", "bad_gone.png", "bad_folder.png", "bad_pipe.png"}


@pytest.mark.filterwarnings("default::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("threads", [0, 2])
def test_skip_leaves_out_exactly_the_bad_files_and_names_them(tmp_path, threads):
    bad = spoil(make_folder(tmp_path, count=20))
    data = open_image_folder(tmp_path, READER)
    loader = Loader(data, 8, on_error="skip", skip_limit=0.5, threads=threads)
    for _ in range(2):
        batches = list(loader)
        assert sum(batch.num_samples for batch in batches) == 40
        assert sum(len(batch.errors) for batch in batches) == len(bad)
        assert all(len(batch["image"]) == len(batch["label"]) == batch.num_samples for batch in batches)
    assert {os.path.basename(data.paths[i]) for i in loader.skipped_samples} == bad


@pytest.mark.filterwarnings("default::PIL.Image.DecompressionBombWarning")
def test_fail_names_the_first_bad_file_and_the_limit_is_obeyed(tmp_path):
    spoil(make_folder(tmp_path, count=20))
    data = open_image_folder(tmp_path, READER)
    with pytest.raises(SampleError, match=r"bad_empty.png: is an empty file"):
        list(Loader(data, 8, shuffle=False, threads=2))
    with pytest.raises(DataError, match=r"of 56 samples cannot be read, more than the 3 that skip_limit 0.05"):
        list(Loader(data, 8, on_error="skip", threads=2))


@pytest.mark.filterwarnings("default::PIL.Image.DecompressionBombWarning")
def test_skipping_does_not_disturb_the_order_of_the_others(tmp_path):
    spoil(make_folder(tmp_path, count=20))
    data = open_image_folder(tmp_path, READER)
    seen = []
    for threads in (0, 1, 4):
        loader = Loader(data, 8, on_error="skip", skip_limit=1, seed=5, threads=threads)
        seen.append([(b.context.indices.tolist(), b["image"].tobytes()) for b in loader])
    assert seen[0] == seen[1] == seen[2]


def test_an_unreadable_file_is_named(tmp_path, monkeypatch):
    make_folder(tmp_path)
    target = str(tmp_path / "dog" / "002.png")
    true_open = os.open

    def refusing(path, *args, **kwargs):
        if os.fspath(path) == target:
            raise PermissionError(13, "Permission denied", path)
        return true_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(SampleError, match=r"002.png: cannot be opened: Permission denied"):
        list(Loader(open_image_folder(tmp_path, READER), 4))


# ---------------------------------------------------------------- folders and lists


def test_folder_order_and_labels(tmp_path):
    make_folder(tmp_path, ("b", "a", "Z"), 2)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("no picture")
    (tmp_path / "a" / "deep").mkdir()
    (tmp_path / "a" / "deep" / "x.JPG").write_bytes(encoded(form="JPEG"))
    data = open_image_folder(tmp_path, READER)
    assert data.classes["label"] == ("Z", "a", "b")
    assert data.column_array("label").tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert [os.path.relpath(p, tmp_path) for p in data.paths[2:5]] == ["a/000.png", "a/001.png", "a/deep/x.JPG"]
    assert data.sorted_by_class


def test_folder_with_given_classes(tmp_path):
    make_folder(tmp_path)
    data = open_image_folder(tmp_path, READER, ["dog", "cat", "cow"])
    assert data.column_array("label").tolist() == [0] * 5 + [1] * 5
    with pytest.raises(DataError, match=r"the folder 'cat' is not one of the 2 classes.*Did you mean 'cats'"):
        open_image_folder(tmp_path, READER, ["dog", "cats"])


def test_folders_that_hold_nothing(tmp_path):
    with pytest.raises(DataError, match="has no class folders"):
        open_image_folder(tmp_path, READER)
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match="has no image files"):
        open_image_folder(tmp_path, READER)


def test_a_circle_of_links_and_deep_folders(tmp_path):
    make_folder(tmp_path)
    (tmp_path / "cat" / "loop").symlink_to(tmp_path)
    assert len(find_image_files(tmp_path)) == 10
    deep = tmp_path / "dog"
    for _ in range(18):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(DataError, match="nested deeper than 16"):
        find_image_files(tmp_path)


def test_pictures_of_unequal_sizes_need_a_size(tmp_path):
    make_folder(tmp_path)
    (tmp_path / "dog" / "003.png").write_bytes(encoded(size=(9, 8)))
    with pytest.raises(SampleError, match=r"003.png: has 9 x 8 pixels .*expected 8 x 8"):
        list(Loader(open_image_folder(tmp_path, ImageReader()), 4))
    assert len(list(Loader(open_image_folder(tmp_path, READER), 5))) == 2


def test_a_set_of_broken_pictures_only(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(b"no")
    with pytest.raises(DataError, match=r"none of the first 1 images can be read: .*a.png"):
        open_image_folder(tmp_path, ImageReader())


def test_train_and_test_folders(tmp_path):
    make_folder(tmp_path / "train")
    make_folder(tmp_path / "VAL", ("dog",), 2)
    parts = open_source(tmp_path, SourceOptions(reader=READER))
    assert set(parts) == {"train", "validation"}
    assert parts["validation"].column_array("label").tolist() == [1, 1]


def test_list_file(tmp_path):
    make_folder(tmp_path)
    (tmp_path / "a b.png").write_bytes(encoded())
    path = tmp_path / "list.txt"
    path.write_text("# pictures\ncat/000.png 3\n\na b.png\t0\r\n")
    data = open_image_list(path, READER)
    assert data.column_array("label").tolist() == [3, 0]
    assert open_source(path, SourceOptions(reader=READER))["train"].column_array("label").tolist() == [3, 0]
    path.write_text("cat/000.png cat\ndog/000.png dog\n")
    data = open_source(path, SourceOptions(reader=READER))["train"]
    assert data.classes["label"] == ("cat", "dog")
    assert len(data.read(np.arange(2))["image"]) == 2


@pytest.mark.parametrize(
    ("text", "classes", "words"),
    [
        ("cat/000.png\n", [], "line 1: expected a path and a label"),
        ("cat/000.png cat\ncat/001.png cow\n", ["cat", "dog"], "line 2: expected one of the classes cat, dog"),
        ("", [], "has no image files"),
    ],
)
def test_bad_list_files(tmp_path, text, classes, words):
    make_folder(tmp_path)
    path = tmp_path / "list.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        open_image_list(path, READER, classes)


def test_pictures_without_labels(tmp_path):
    make_folder(tmp_path)
    data = open_image_files([tmp_path / "cat", tmp_path / "dog" / "000.png"], READER)
    assert len(data) == 6
    assert data.targets == ()
    assert list(data.read(np.arange(6))) == ["image"]
    with pytest.raises(DataError, match="No such file"):
        open_image_files([tmp_path / "nothing.png"], ImageReader())


def test_limit_and_split_of_a_sorted_set_take_from_all_classes(tmp_path):
    make_folder(tmp_path, count=20)
    data = open_image_folder(tmp_path, READER)
    some = data.sample(10)
    assert set(some.column_array("label")) == {0, 1}
    train, val = data.split(0.2)
    assert (len(train), len(val)) == (32, 8)
    assert set(val.column_array("label")) == {0, 1}
    assert {train.origin(i) for i in range(32)}.isdisjoint(val.origin(i) for i in range(8))


def test_the_models_input_gives_size_and_colour(tmp_path):
    make_folder(tmp_path)
    assert Data(str(tmp_path)).open((1, 6, 5)).columns["image"].shape == (1, 6, 5)
    assert Data(str(tmp_path), size=4, color="rgb").open((1, 6, 5)).columns["image"].shape == (3, 4, 4)
    assert Data(str(tmp_path)).open().columns["image"].shape == (3, 8, 8)
