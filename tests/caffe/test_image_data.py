"""ImageData layers: lists, decoding, resizing as OpenCV does it, orders."""

import io

import numpy as np
import pytest
from PIL import Image

from prototorch.caffe.data import open_blob_source
from prototorch.caffe.data.image_list import read_image_list
from prototorch.caffe.data.images import decode_image, resize_image
from prototorch.data import DataWarning
from prototorch.data.read_limits import ReadLimits
from prototorch.errors import DataError, UsageError
from tests.caffe.caffe_data import data_layer, image_bytes, images

PIXELS = images(5, (3, 8, 10))


@pytest.fixture
def folder(tmp_path):
    """Five PNG files, one with a space in its name, and a list of them."""
    names = ["a.png", "b c.png", "d.png", "e.png", "f.png"]
    for name, pixels in zip(names, PIXELS, strict=True):
        (tmp_path / name).write_bytes(image_bytes(pixels))
    (tmp_path / "list.txt").write_text("".join(f"{name} {label}\n" for label, name in enumerate(names, 10)))
    return tmp_path


def layer(transform=None, **fields):
    fields = {"source": "list.txt", "batch_size": 2} | fields
    return data_layer("ImageData", "ImageDataParameter", "image_data_param", transform=transform, **fields)


def take(folder, layer, count=1, phase="TRAIN", **options):
    with open_blob_source(layer, phase, **{"folders": [folder], "seed": 0} | options) as source:
        batches = [source.next_batch() for _ in range(count)]
        assert {top: batch.shape for top, batch in batches[0].items()} == source.shapes
    return batches


def test_images_and_labels_in_the_order_of_the_list(folder):
    batches = take(folder, layer(), 4)
    np.testing.assert_array_equal(np.concatenate([b["data"] for b in batches]), PIXELS[np.arange(8) % 5])
    np.testing.assert_array_equal(np.concatenate([b["label"] for b in batches]), 10 + np.arange(8) % 5)


def test_transformation_gray_and_new_size(folder):
    batch = take(folder, layer({"scale": 0.5, "mean_value": [1.0]}, new_height=5, new_width=7))[0]
    expected = (np.stack([resize_image(p, (5, 7)) for p in PIXELS[:2]]).astype(np.float32) - 1) * np.float32(0.5)
    np.testing.assert_array_equal(batch["data"], expected)
    assert take(folder, layer(is_color=False))[0]["data"].shape == (2, 1, 8, 10)


def test_shuffling_draws_an_order_for_each_pass(folder):
    labels = np.concatenate([b["label"] for b in take(folder, layer(shuffle=True, batch_size=5), 9)]).reshape(9, 5)
    assert {tuple(sorted(row)) for row in labels.tolist()} == {(10, 11, 12, 13, 14)}
    assert len({tuple(row) for row in labels.tolist()}) > 5
    again = np.concatenate([b["label"] for b in take(folder, layer(shuffle=True, batch_size=3), 15)])
    np.testing.assert_array_equal(again, labels.reshape(-1))


def test_rand_skip_and_root_folder(folder, tmp_path_factory):
    starts = {take(folder, layer(rand_skip=3), seed=seed)[0]["label"][0] for seed in range(30)}
    assert starts == {10, 11, 12}
    lists = tmp_path_factory.mktemp("lists")
    (lists / "l.txt").write_text("d.png 1\n")
    batch = take(lists, layer(source="l.txt", root_folder=f"{folder}/", batch_size=1))[0]
    np.testing.assert_array_equal(batch["data"][0], PIXELS[2])


def test_what_a_line_means(tmp_path):
    (tmp_path / "l").write_bytes(b"a b.png 3\r\nno_label.png\nx.png -7 \ny.png 12abc\nz.png word\nlast.png 5")
    got = read_image_list(tmp_path / "l")
    assert got.names == ["a b.png", "no_label.png", "x.png -7", "y.png", "z.png", "last.png"]
    assert got.labels.tolist() == [3, 0, 0, 12, 0, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected a line"),
        ("a.png 1\n\nb.png 2\n", "line 2: is empty"),
        ("a.png 99999999999\n", "line 1: has the label 99999999999, which does not fit in 32 bits"),
        ("a.png 1\nlost.png 1\n", r"line 2: there is no such image"),
        ("a.png 1\nlist.txt 1\n", r"line 2: .*list.txt: is not an image"),
        ("a.png 1\nsmall.png 1\n", r"line 2: the image gives .* \[3, 4, 4\], but the batch began with \[3, 8, 10\]"),
    ],
)
def test_lists_that_do_not_fit(folder, content, message):
    (folder / "list.txt").write_text(content)
    (folder / "small.png").write_bytes(image_bytes(images(1, (3, 4, 4))[0]))
    with pytest.raises(DataError, match=message):
        take(folder, layer())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"new_height": 5}, "new_height is 5 and new_width 0; set both, or none"),
        ({"batch_size": 0}, "batch_size must be 1 or more"),
        ({"rand_skip": 2**32 - 1}, "rand_skip has drawn"),
        ({"new_height": 10**9, "new_width": 10**9}, "the limit is 32,768"),
        ({"source": ""}, "no list of images is given"),
    ],
)
def test_fields_that_do_not_fit(folder, fields, message):
    with pytest.raises(DataError, match=rf"layer 'in' \(ImageData\): .*{message}"):
        take(folder, layer(**fields))


def test_limits_hold_for_images(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (folder / "a.png").rename(other / "a.png")
    (folder / "list.txt").write_text(f"b c.png 1\n{other}/a.png 0\n")
    limits = ReadLimits("net.prototxt", frozenset(), (str(folder),))
    with pytest.raises(UsageError, match="outside of"):
        take(folder, layer(), limits=limits)


def ramp(height, width):
    y, x = np.mgrid[:height, :width]
    return ((y * 53 + x * 91 + (x * y * 29)) % 256).astype(np.uint8)[None]


#: What OpenCV's resize gives for ramp(5, 7), and for ramp(4, 6) halved.
OPENCV = {
    (4, 9): [[7, 70, 129, 135, 34, 83, 149, 138, 30], [73, 160, 148, 86, 113, 91, 104, 110, 90],
             [139, 144, 107, 73, 128, 134, 86, 102, 214], [205, 170, 129, 95, 79, 39, 122, 191, 178]],
    (3, 4): [[55, 125, 77, 82], [162, 135, 171, 176], [172, 80, 52, 173]],
    (11, 2): [[114, 176], [118, 164], [130, 135], [147, 111], [187, 110], [228, 110], [152, 80], [76, 50], [94, 91],
              [134, 148], [151, 171]],
}  # fmt: skip


@pytest.mark.parametrize("size", OPENCV)
def test_resizing_is_opencvs(size):
    np.testing.assert_array_equal(resize_image(ramp(5, 7), size)[0], OPENCV[size])
    several = np.concatenate([ramp(5, 7), 255 - ramp(5, 7)])
    np.testing.assert_array_equal(resize_image(several, size)[0], OPENCV[size])


def test_resizing_to_half_takes_means():
    np.testing.assert_array_equal(resize_image(ramp(4, 6), (2, 3))[0], [[79, 98, 117], [150, 93, 100]])


def test_resizing_is_bilinear_to_within_a_rounding():
    image = images(1, (3, 23, 31))[0]
    for size in [(7, 50), (60, 31), (1, 1), (23, 8)]:
        exact = image.astype(float)
        for axis, (old, new) in enumerate(zip(image.shape[1:], size, strict=True), 1):
            place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
            low = np.floor(place).astype(int)
            weight = (place - low).reshape((-1, 1) if axis == 1 else (1, -1))
            exact = exact.take(low, axis) * (1 - weight) + exact.take(np.minimum(low + 1, old - 1), axis) * weight
        np.testing.assert_allclose(resize_image(image, size), exact, atol=1.2)


def encoded(image, file_format="PNG", **options):
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def test_channels_of_image_files():
    color = PIXELS[0]
    rgb = Image.fromarray(np.ascontiguousarray(color[::-1].transpose(1, 2, 0)))
    np.testing.assert_array_equal(decode_image(encoded(rgb), "x", "unchanged"), color)
    alpha = rgb.copy()
    alpha.putalpha(7)
    np.testing.assert_array_equal(decode_image(encoded(alpha), "x", "color"), color)
    np.testing.assert_array_equal(decode_image(encoded(alpha), "x", "unchanged")[3], np.full((8, 10), 7))
    gray = Image.fromarray(color[0])
    assert decode_image(encoded(gray), "x", "unchanged").shape == (1, 8, 10)
    np.testing.assert_array_equal(decode_image(encoded(gray), "x", "color"), color[[0, 0, 0]])
    deep = Image.fromarray((color[0].astype(np.uint16) << 8) + 200)
    np.testing.assert_array_equal(decode_image(encoded(deep), "x", "gray")[0], color[0])
    with pytest.raises(DataError, match="samples of 16 bits"):
        decode_image(encoded(deep), "x", "unchanged")
    palette = rgb.quantize(16)
    assert decode_image(encoded(palette), "x", "unchanged").shape == (3, 8, 10)
    turned = Image.Exif()
    turned[0x0112] = 6
    sizes = {
        mode: decode_image(encoded(rgb, "JPEG", exif=turned), "x", mode).shape[1:]
        for mode in ("color", "gray", "unchanged")
    }
    assert sizes == {"color": (10, 8), "gray": (10, 8), "unchanged": (8, 10)}


def test_gray_of_a_jpeg_is_its_luma():
    smooth = Image.fromarray(resize_image(PIXELS[1], (64, 64)).transpose(1, 2, 0))
    data = encoded(smooth, "JPEG", quality=95)
    luma = np.asarray(Image.open(io.BytesIO(data)).convert("YCbCr"))[..., 0]
    np.testing.assert_allclose(decode_image(data, "x", "gray")[0].astype(int), luma, atol=2)


def test_large_images_are_converted_in_blocks(monkeypatch):
    image = images(1, (3, 40, 50))[0]
    data = image_bytes(image)
    expected = resize_image(image, (33, 71)), decode_image(data, "x", "gray")
    monkeypatch.setattr("prototorch.caffe.data.images._BLOCK_PIXELS", 160)
    np.testing.assert_array_equal(resize_image(image, (33, 71)), expected[0])
    np.testing.assert_array_equal(decode_image(data, "x", "gray"), expected[1])


@pytest.mark.parametrize(
    ("param", "transform", "message"),
    [
        ({"scale": 0.5, "mirror": True}, {}, "scale, mirror in image_data_param has no effect, as in Caffe"),
        ({"crop_size": 3}, None, "crop_size in image_data_param .* what counts stands in transform_param"),
    ],
)
def test_fields_that_caffe_does_not_use_are_reported(folder, param, transform, message):
    with pytest.warns(DataWarning, match=message):
        take(folder, layer(transform, **param))
