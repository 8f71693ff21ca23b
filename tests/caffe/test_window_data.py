"""WindowData layers: lists, samples, where a window goes, mean and mirror; MemoryData layers."""

import math

import numpy as np
import pytest

from prototorch.caffe.data import open_blob_source
from prototorch.caffe.data.images import resize_image
from prototorch.caffe.data.mean_file import encode_mean
from prototorch.caffe.data.window_data import place_window
from prototorch.caffe.data.window_list import read_window_list
from prototorch.data import DataWarning
from prototorch.errors import DataError
from tests.caffe.caffe_data import data_layer, image_bytes, images

PIXELS = images(2, (3, 20, 30))
LIST = """\
# 0
a.png 3 20 30
3
5 0.9 2 3 11 14
5 0.2 0 0 29 19
7 0.5 10 5 20 12
# 1
b.png
3
20 30
2
1 0.1 4 4 9 9
2 0.45 1 1 5 5
"""


@pytest.fixture
def folder(tmp_path):
    for name, pixels in zip(("a.png", "b.png"), PIXELS, strict=True):
        (tmp_path / name).write_bytes(image_bytes(pixels))
    (tmp_path / "windows.txt").write_text(LIST)
    return tmp_path


def layer(transform=None, **fields):
    fields = {"source": "windows.txt", "batch_size": 8, "bg_threshold": 0.4} | fields
    transform = {"crop_size": 12} | (transform or {})
    return data_layer("WindowData", "WindowDataParameter", "window_data_param", transform=transform, **fields)


def take(folder, layer, count=1, **options):
    with open_blob_source(layer, "TRAIN", **{"folders": [folder], "seed": 0} | options) as source:
        return [source.next_batch() for _ in range(count)]


def test_a_list_by_overlap(folder):
    windows = read_window_list(folder / "windows.txt", 0.5, 0.4)
    assert windows.foreground.tolist() == [[0, 5, 2, 3, 11, 14], [0, 7, 10, 5, 20, 12]]
    assert windows.background.tolist() == [[0, 0, 0, 0, 29, 19], [1, 0, 4, 4, 9, 9]]
    assert windows.images == ["a.png", "b.png"]


def warp(image, box, crop):
    x1, y1, x2, y2 = box
    return resize_image(np.ascontiguousarray(image[:, y1 : y2 + 1, x1 : x2 + 1]), (crop, crop)).astype(np.float32)


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.99, 0.0])
def test_background_first_then_objects(folder, fraction):
    num_objects = math.floor(8 * fraction)
    objects = {5.0: (0, (2, 3, 11, 14)), 7.0: (0, (10, 5, 20, 12))}
    background = [(0, (0, 0, 29, 19)), (1, (4, 4, 9, 9))]
    drawn = set()
    for batch in take(folder, layer(fg_fraction=fraction), 6):
        labels = batch["label"]
        assert (labels[: 8 - num_objects] == 0).all()
        assert set(labels[8 - num_objects :]) <= {5.0, 7.0}
        for image, label in zip(batch["data"], labels, strict=True):
            choices = [objects[label]] if label else background
            matches = [c for c in choices if np.array_equal(image, warp(PIXELS[c[0]], c[1], 12))]
            assert len(matches) == 1
            drawn.add(matches[0])
    assert len(drawn) == (4 if num_objects else 2)


def test_scale_mean_and_mirror(folder):
    mean = np.random.default_rng(1).normal(size=(3, 16, 16)).astype(np.float32)
    (folder / "mean.binaryproto").write_bytes(encode_mean(mean))
    only = {"fg_threshold": 0.8, "fg_fraction": 1.0, "batch_size": 6}
    plain = warp(PIXELS[0], (2, 3, 11, 14), 12)
    batch = take(folder, layer({"mirror": True}, **only, scale=0.5))[0]
    expected = {flip: (plain[..., ::-1] if flip else plain) * np.float32(0.5) for flip in (False, True)}
    flips = [next(f for f in expected if np.array_equal(image, expected[f])) for image in batch["data"]]
    assert set(flips) == {False, True}
    batch = take(folder, layer({"mean_value": [1.0, 2.0, 3.0]}, **only))[0]
    np.testing.assert_array_equal(batch["data"][0], plain - np.float32([1, 2, 3])[:, None, None])
    batch = take(folder, layer({"mean_file": "mean.binaryproto"}, **only))[0]
    np.testing.assert_array_equal(batch["data"][0], plain - mean[:, 2:14, 2:14])


def test_context_padding_leaves_empty_borders(folder):
    """A window at the corner: with 2 of 12 pixels of context its left and upper context is outside of the image."""
    (folder / "windows.txt").write_text("# 0\na.png 3 20 30 2\n4 1 0 0 7 7\n4 0 4 4 9 9\n")
    fields = {"fg_fraction": 1.0, "context_pad": 2, "batch_size": 1, "cache_images": True}
    image = take(folder, layer({"mean_value": [1000.0]}, **fields))[0]["data"][0]
    # half a side is 4, times 12/8 is 6: columns -2..10, of which 0..10 are 11 of 13, 12/13 of a pixel each
    empty = (image == 0).all(0)
    assert empty[:2].all()
    assert empty[:, :2].all()
    inner = resize_image(np.ascontiguousarray(PIXELS[0][:, :11, :11]), (10, 10)).astype(np.float32) - 1000
    np.testing.assert_array_equal(image[:, 2:, 2:], inner)


def expected_place(box, size, crop, pad, square, flip):
    """window_data_layer.cpp in exact arithmetic where rounding is not at a half."""
    x1, y1, x2, y2 = box
    factor = crop / (crop - 2 * pad)
    half_h, half_w = (y2 - y1 + 1) / 2, (x2 - x1 + 1) / 2
    cx, cy = x1 + half_w, y1 + half_h
    if square:
        half_h = half_w = max(half_h, half_w)
    edges = [cx - half_w * factor, cx + half_w * factor, cy - half_h * factor, cy + half_h * factor]
    x1, x2, y1, y2 = (int(math.copysign(math.floor(abs(e) + 0.5), e)) for e in edges)
    scale_x, scale_y = crop / (x2 - x1 + 1), crop / (y2 - y1 + 1)
    left, right = max(0, -x1), max(0, x2 - size[1] + 1)
    above, below = max(0, -y1), max(0, y2 - size[0] + 1)
    x1, x2, y1, y2 = x1 + left, x2 - right, y1 + above, y2 - below
    top = math.floor(above * scale_y + 0.5)
    start = math.floor((right if flip else left) * scale_x + 0.5)
    width = min(math.floor((x2 - x1 + 1) * scale_x + 0.5), crop - start)
    height = min(math.floor((y2 - y1 + 1) * scale_y + 0.5), crop - top)
    return (y1, y2 + 1, x1, x2 + 1, height, width, top, start)


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("pad", [1, 3])
def test_places_of_windows(square, pad):
    generator = np.random.default_rng(0)
    for _ in range(200):
        (x1, x2), (y1, y2) = (np.sort(generator.integers(0, n, 2)) for n in (60, 50))
        flip = bool(generator.integers(2))
        box = (int(x1), int(y1), int(x2), int(y2))
        place = place_window(box, (50, 60), 17, pad, square, flip, "float64")
        got = (
            place.rows.start,
            place.rows.stop,
            place.columns.start,
            place.columns.stop,
            place.height,
            place.width,
            place.top,
            place.left,
        )
        assert got == expected_place(box, (50, 60), 17, pad, square, flip)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no windows of the foreground"),
        ("# 0\na.png 3 20 30 1\n4 0.9 0 0 7 7\n", "has no windows of the background"),
        ("# 1\na.png 3 20 30 0\n", "line 1: expected '# 0', the next image"),
        ("# 0\na.png 3 20\n", "the list ends where height|the list ends where width"),
        ("# 0\na.png 3 20 30 1\n0 0.9 0 0 7 7\n", "line 3: a window with the overlap 0.9 is an object, but .* is 0"),
        ("# 0\na.png 3 20 30 1\n4 x 0 0 7 7\n", "line 3: expected an overlap, a number"),
        ("# 0\na.png 3 20 30 1\n4 .5 0 0.5 7 7\n", "line 3: expected y1, an integer"),
        ("# 0\na.png 1 20 30 2\n4 .5 0 0 7 7\n1 0 0 0 7 7", "the images have 1 channels; WindowData reads 3"),
        ("# 0\na.png 3 20 30 2\n4 .5 0 0 30 7\n1 0 0 0 30 7", r"the window \[0, 0, 30, 7\] of 'a.png' does not lie in"),
        ("# 0\nlost.png 3 20 30 2\n4 .5 0 0 3 7\n1 0 0 0 3 7", "image 0: there is no such image"),
        ("# 0\na.png 3 20 30 99999999\n4 .5 0 0 7 7\n", "the list ends where"),
    ],
)
def test_lists_that_do_not_fit(folder, content, message):
    (folder / "windows.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        take(folder, layer())


def test_fields_that_do_not_fit(folder):
    for change, message in [
        ({"transform": {"crop_size": 0}}, "crop_size above 2 x context_pad, not 0"),
        ({"context_pad": 6}, "crop_size above 2 x context_pad, not 12 with 6"),
        ({"fg_fraction": 1.5}, "fg_fraction must be 0 to 1"),
        ({"transform": {"mean_value": [1.0, 2.0]}}, "2 mean_value, but the images have 3 channels"),
    ]:
        with pytest.raises(DataError, match=message):
            take(folder, layer(**change))


def test_the_scale_is_that_of_window_data_param(folder):
    with pytest.warns(DataWarning, match="scale in transform_param has no effect.* stands in window_data_param"):
        scaled = take(folder, layer({"scale": 0.5}))[0]["data"]
    np.testing.assert_array_equal(scaled, take(folder, layer())[0]["data"])


def memory_layer(transform=None, **fields):
    sizes = {"batch_size": 2, "channels": 3, "height": 4, "width": 5} | fields
    return data_layer("MemoryData", "MemoryDataParameter", "memory_data_param", transform=transform, **sizes)


def test_memory_data_takes_arrays():
    pixels = images(6, (3, 4, 5)).astype(np.float32)
    with open_blob_source(memory_layer(), "TRAIN") as source:
        assert source.shapes == {"data": (2, 3, 4, 5), "label": (2,)}
        with pytest.raises(DataError, match="MemoryData has no data yet"):
            source.next_batch()
        source.set_arrays(pixels, np.arange(6.0).reshape(6, 1, 1, 1))
        labels = np.concatenate([source.next_batch()["label"] for _ in range(4)])
        np.testing.assert_array_equal(labels, [0, 1, 2, 3, 4, 5, 0, 1])
        source.set_arrays(pixels[::-1], np.arange(6.0))
        np.testing.assert_array_equal(source.next_batch()["data"], pixels[:3:-1])
        source.batch_size = 3
        assert source.next_batch()["data"].shape == (3, 3, 4, 5)
        for arrays, message in [
            ((pixels[:4], np.zeros(4)), "4 rows, which is no multiple of the batch size 3"),
            ((pixels[:, :, :3], np.zeros(6)), r"images of the shape \[n, 3, 4, 5\]"),
            ((pixels, np.zeros(5)), r"labels of the shape \[6\], not \[5\]"),
        ]:
            with pytest.raises(DataError, match=message):
                source.set_arrays(*arrays)


def test_memory_data_transforms_images():
    with open_blob_source(memory_layer({"crop_size": 4, "scale": 2.0}, width=4), "TEST") as source:
        pixels = images(2, (3, 6, 6))
        source.add_images(pixels, [4, 9])
        batch = source.next_batch()
        np.testing.assert_array_equal(batch["data"], 2.0 * pixels[:, :, 1:5, 1:5])
        np.testing.assert_array_equal(batch["label"], [4, 9])
        with pytest.raises(DataError, match="crop_size is 4, but the image has 3 x 6"):
            source.add_images(pixels[:, :, :3], [4, 9])
    with pytest.raises(DataError, match="must be 1 or more"):
        open_blob_source(memory_layer(height=0), "TEST")
