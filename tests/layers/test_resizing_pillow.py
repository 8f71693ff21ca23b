"""Resizing and cropping against Pillow and the transforms of torchvision, on images of odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ModelError, TextError, UsageError
from prototorch.graph.ir import Graph
from prototorch.layers import CenterCrop, Resizing
from prototorch.spec import Spec
from tests.interop.torchvision_nets import torchvision_module

SIZES = [(3, 3), (37, 53), (256, 256), (255, 301), (301, 257), (211, 640), (97, 40)]


def photo(height: int, width: int) -> np.ndarray:
    """uint8 [height, width, 3], smooth with noise and hard edges."""
    rows, columns = np.mgrid[:height, :width]
    waves = 127 + 90 * np.sin(rows / 7 + columns / 11)[..., None] * [1, -1, 0.5]
    noise = np.random.default_rng(height * width).integers(-60, 60, (height, width, 3))
    return np.clip(waves + noise, 0, 255).astype(np.uint8)


def run(text: str, image: np.ndarray) -> np.ndarray:
    """Our layer's output [height, width, 3] for an image uint8 [height, width, 3]."""
    x = image.transpose(2, 0, 1)[None]
    traced = trace_layer(Graph(), parse_layer(text), [Spec(x.shape, "uint8")], False, "float32")
    return CompiledLayer(traced, named_outputs(traced), cpu(), {})([x])["y0"][0].transpose(1, 2, 0)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_rounded_pixels_are_those_of_pillow(size: tuple[int, int], method: str):
    image = photo(*size)
    text = f"Resizing {{ height: 64  width: 45  interpolation: {method}  antialias: true  round_pixels: true }}"
    theirs = Image.fromarray(image).resize((45, 64), Image.Resampling[method.upper()])
    np.testing.assert_array_equal(run(text, image), np.asarray(theirs))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("side", [256, 232, 31])
def test_the_shorter_side_is_that_of_torchvision(size: tuple[int, int], side: int):
    transforms = torchvision_module().transforms
    image = photo(*size)
    text = f"Resizing {{ height: {side}  width: {side}  keep_aspect_ratio: true  antialias: true  round_pixels: true }}"
    np.testing.assert_array_equal(run(text, image), np.asarray(transforms.Resize(side)(Image.fromarray(image))))


@pytest.mark.parametrize("size", [(20, 21), (20, 22), (20, 23), (23, 24), (25, 26), (27, 20)], ids=str)
def test_the_crop_is_that_of_torchvision(size: tuple[int, int]):
    transforms = torchvision_module().transforms
    image = photo(*size)
    ours = run("CenterCrop { height: 20  width: 20  offset_rounding: half_even }", image)
    np.testing.assert_array_equal(ours, np.asarray(transforms.CenterCrop(20)(Image.fromarray(image))))


def test_without_rounding_elements_are_near_those_of_pillow():
    image = photo(101, 67)
    ours = run("Resizing { height: 33  width: 20  antialias: true }", image)
    assert not np.array_equal(ours, np.round(ours))
    theirs = np.asarray(Image.fromarray(image).resize((20, 33), Image.Resampling.BILINEAR))
    assert np.abs(ours - theirs).max() < 1.2  # two roundings


def test_bgr_is_the_reversed_order():
    image = photo(5, 4)
    np.testing.assert_array_equal(run("ColorChannels { order: bgr }", image), image[..., ::-1])


@pytest.mark.parametrize(("size", "expected"), [((30, 40), (15, 20)), ((40, 30), (26, 20)), ((5, 90), (10, 180))])
def test_a_kept_aspect_ratio_covers_height_and_width(size: tuple[int, int], expected: tuple[int, int]):
    assert run("Resizing { height: 10  width: 20  keep_aspect_ratio: true }", photo(*size)).shape[:2] == expected


@pytest.mark.parametrize("other", ["crop_to_aspect_ratio", "pad_to_aspect_ratio"])
def test_two_ways_with_the_aspect_ratio_exclude_each_other(other: str):
    with pytest.raises(UsageError, match=f"{other} and keep_aspect_ratio exclude each other"):
        Resizing(4, 4, keep_aspect_ratio=True, **{other: True})


def test_an_image_of_extreme_shape_is_refused_before_it_is_resized():
    with pytest.raises(ModelError, match=r"256 x 256000 pixels"):
        trace_layer(
            Graph(), Resizing(256, 256, keep_aspect_ratio=True), [Spec((1, 3, 1, 1000), "uint8")], False, "float32"
        )


def test_the_fields_are_written_as_they_were_read():
    for text in ("Resizing { height: 2  width: 3  antialias: true }", "CenterCrop { height: 2  width: 3 }"):
        layer = parse_layer(text)
        assert type(layer).from_fields(layer.to_fields(), None) == layer
    assert CenterCrop(2, 3).offset_rounding == "down"
    with pytest.raises((UsageError, TextError)):
        parse_layer("CenterCrop { height: 2  width: 3  offset_rounding: up }")
