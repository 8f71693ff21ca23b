"""``caffe.io``: images, Transformer, messages."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from prototorch.caffe import io
from prototorch.caffe.proto import caffe_pb2
from prototorch.errors import DataError, PrototorchError, UsageError


def bilinear(im: np.ndarray, height: int, width: int) -> np.ndarray:
    """Pixel by pixel; the image's minimum lies outside of it."""
    out = np.empty((height, width, im.shape[2]))
    padded = np.pad(im.astype(float), ((1, 1), (1, 1), (0, 0)), constant_values=im.min())
    for i in range(height):
        for j in range(width):
            y, x = (i + 0.5) * im.shape[0] / height + 0.5, (j + 0.5) * im.shape[1] / width + 0.5
            r, c = int(y), int(x)
            fy, fx = y - r, x - c
            out[i, j] = (
                padded[r, c] * (1 - fy) * (1 - fx)
                + padded[r, c + 1] * (1 - fy) * fx
                + padded[r + 1, c] * fy * (1 - fx)
                + padded[r + 1, c + 1] * fy * fx
            )
    return out


@pytest.mark.parametrize("size", [(3, 4), (9, 5), (6, 7), (12, 14)])
def test_an_image_is_resized_linearly_with_its_minimum_around_it(size):
    im = np.random.default_rng(0).normal(size=(6, 7, 3)).astype(np.float32)
    resized = io.resize_image(im, size)
    assert resized.dtype == np.float32
    np.testing.assert_allclose(resized, bilinear(im, *size), atol=1e-5)


def test_images_of_other_channels_keep_their_corners():
    im = np.arange(4 * 3 * 2.0).reshape(4, 3, 2)
    resized = io.resize_image(im, (7, 5))
    assert np.array_equal(resized[::6, ::4], im[::3, ::2].astype(np.float32))
    np.testing.assert_allclose(resized[1, 0], (im[0, 0] + im[1, 0]) / 2)
    assert np.array_equal(io.resize_image(np.full((2, 2, 3), 0.5), (4, 4)), np.full((4, 4, 3), 0.5, np.float32))
    with pytest.raises(UsageError, match="interp_order"):
        io.resize_image(im, (2, 2), 3)


def test_oversampling_gives_corners_center_and_mirrors():
    images = [np.random.default_rng(n).random((6, 7, 3)).astype(np.float32) for n in range(2)]
    crops = io.oversample(images, (4, 4))
    assert crops.shape == (20, 4, 4, 3)
    for n, im in enumerate(images):
        expected = [im[:4, :4], im[:4, 3:], im[2:, :4], im[2:, 3:], im[1:5, 1:5]]
        for k, crop in enumerate(expected):
            assert np.array_equal(crops[10 * n + k], crop)
            assert np.array_equal(crops[10 * n + 5 + k], crop[:, ::-1])


def test_a_transformer_does_its_steps_in_caffes_order_and_undoes_them():
    rng = np.random.default_rng(1)
    transformer = io.Transformer({"data": (10, 3, 5, 4)})
    mean = rng.random((3, 5, 4)).astype(np.float32) * 100
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", mean)
    transformer.set_input_scale("data", 0.017)
    image = rng.random((5, 4, 3)).astype(np.float32)
    before = image.copy()
    out = transformer.preprocess("data", image)
    np.testing.assert_allclose(out, (image.transpose(2, 0, 1)[::-1] * 255 - mean) * 0.017, rtol=1e-5, atol=1e-6)
    assert out.dtype == np.float32
    assert np.array_equal(image, before)
    np.testing.assert_allclose(transformer.deprocess("data", out[None]), image, atol=1e-6)
    larger = rng.random((9, 8, 3)).astype(np.float32)
    resized = io.resize_image(larger, (5, 4))
    assert np.array_equal(transformer.preprocess("data", larger), transformer.preprocess("data", resized))


def test_a_mean_is_of_channels_or_an_image_of_any_size():
    transformer = io.Transformer({"data": (1, 3, 5, 4)})
    transformer.set_mean("data", np.array([1.0, 2, 3]))
    assert transformer.mean["data"].shape == (3, 1, 1)
    mean = np.random.default_rng(0).random((3, 8, 8)) * 255
    transformer.set_mean("data", mean)
    assert transformer.mean["data"].shape == (3, 5, 4)
    np.testing.assert_allclose(transformer.mean["data"].mean(), mean.mean(), rtol=0.1)
    for script in (
        lambda t: t.set_mean("data", np.ones(4)),
        lambda t: t.set_mean("data", np.ones((1, 1, 1, 1))),
        lambda t: t.set_transpose("data", (1, 0)),
        lambda t: t.set_channel_swap("data", (0, 1)),
        lambda t: t.set_raw_scale("dat", 3),
        lambda t: t.preprocess("x", mean),
    ):
        with pytest.raises(UsageError):
            script(transformer)


def test_an_image_file_is_read_as_rgb_or_intensity(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "c.png")
    Image.fromarray(pixels[..., 0]).save(tmp_path / "g.png")
    np.testing.assert_allclose(io.load_image(tmp_path / "c.png"), pixels / 255, atol=1e-7)
    grey = io.load_image(tmp_path / "g.png")
    assert grey.shape == (4, 6, 3)
    assert np.array_equal(grey[..., 0], grey[..., 2])
    assert io.load_image(tmp_path / "g.png", color=False).shape == (4, 6, 1)
    np.testing.assert_allclose(io.load_image(tmp_path / "g.png", color=False), grey[..., :1], atol=1e-6)
    luma = pixels @ [0.2125, 0.7154, 0.0721] / 255
    np.testing.assert_allclose(io.load_image(tmp_path / "c.png", color=False)[..., 0], luma, atol=1e-6)
    with pytest.raises(PrototorchError):
        io.load_image(tmp_path / "none.png")


def test_arrays_become_messages_and_back():
    array = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    blob = io.array_to_blobproto(array, array * 2)
    assert list(blob.shape.dim) == [2, 3, 4]
    assert np.array_equal(io.blobproto_to_array(blob), array)
    assert np.array_equal(io.blobproto_to_array(blob, return_diff=True), array * 2)
    legacy = caffe_pb2.BlobProto(num=1, channels=2, height=3, width=4)
    legacy.data.extend(array.flat)
    assert io.blobproto_to_array(legacy).shape == (1, 2, 3, 4)
    data = io.arraylist_to_blobprotovector_str([array, array[0]])
    assert [a.shape for a in io.blobprotovector_str_to_arraylist(data)] == [(2, 3, 4), (3, 4)]
    for values in (array, (array * 50).astype(np.uint8)):
        datum = io.array_to_datum(values, 7)
        again = caffe_pb2.Datum.FromString(datum.SerializeToString())
        assert again.label == 7
        assert np.array_equal(io.datum_to_array(again), values)
    assert io.datum_to_array(io.array_to_datum((array * 50).astype(np.uint8))).dtype == np.uint8
    again.height = 5
    with pytest.raises(DataError, match="24 elements"):
        io.datum_to_array(again)
    with pytest.raises(UsageError):
        io.array_to_datum(array[0])
