"""Layers over pictures against Keras, with ranges of one point where they draw; then what their draws must be."""

import keras
import numpy as np
import pytest
import torch
from PIL import Image

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.graph.ir import Graph
from prototorch.spec import Spec
from tests.layers.compare import SINGLE, numbers, spelled, text_of, tupled
from tests.layers.peers import ours

PICTURES = numbers(2, 3, 6, 7, low=0, high=255)


def run(text, x, training=False, key=(1, 2)):
    said = trace_layer(Graph(), parse_layer(text), [Spec(x.shape, str(x.dtype))], training, "float64")
    return CompiledLayer(said, named_outputs(said), cpu(), {})([x], key=key)["y0"]


def keras_run(name, options, x, training=False):
    layer = getattr(keras.layers, name)(**{k: tupled(v) for k, v in options.items()}, data_format="channels_first")
    return np.asarray(layer(torch.tensor(x), training=training).detach())


SIZED = [
    ("Resizing", {"height": 9, "width": 4}), ("Resizing", {"height": 3, "width": 14, "interpolation": "nearest"}),
    ("Resizing", {"height": 5, "width": 5, "interpolation": "nearest"}),
    ("Resizing", {"height": 4, "width": 8, "crop_to_aspect_ratio": True}),
    ("Resizing", {"height": 8, "width": 3, "crop_to_aspect_ratio": True}),
    ("Resizing", {"height": 4, "width": 9, "pad_to_aspect_ratio": True}),
    ("Resizing", {"height": 9, "width": 3, "pad_to_aspect_ratio": True, "fill_value": 7.0}),
    ("CenterCrop", {"height": 3, "width": 4}), ("CenterCrop", {"height": 6, "width": 5}),
    ("CenterCrop", {"height": 8, "width": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), SIZED, ids=str)
def test_sizes_are_keras(name, options):
    # Keras resizes in float32: 255 * 6e-8 and a few operations.
    np.testing.assert_allclose(
        run(text_of(name, options), PICTURES), keras_run(name, options, PICTURES), rtol=SINGLE, atol=1e-4
    )


def test_bicubic_is_pillow_inside():
    """Pillow's kernel is the same (a = -1/2); at the borders it differs, two pixels of the smaller picture."""
    small = numbers(1, 1, 8, 8, low=0, high=255).astype(np.float32)
    made = run("UpSampling2D { size: 2  interpolation: bicubic }", small)[0, 0]
    theirs = np.asarray(Image.fromarray(small[0, 0]).resize((16, 16), Image.Resampling.BICUBIC))
    np.testing.assert_allclose(made[4:-4, 4:-4], theirs[4:-4, 4:-4], atol=1e-3)  # Pillow rounds its weights


RESCALED = [
    ("Rescaling", {"scale": 0.5}, (3, 4)), ("Rescaling", {"scale": 1 / 127.5, "offset": -1.0}, (3, 4, 4)),
    ("Normalization", {"mean": [1.0, 2.0, 3.0], "variance": [1.0, 0.5, 4.0], "axis": 1}, (3, 4)),
    ("Normalization", {"mean": [1.0, 2.0, 3.0, 4.0], "variance": [1.0, 0.5, 4.0, 1e-20], "axis": -1}, (3, 4)),
    ("Normalization", {"mean": 0.5, "variance": 2.0}, (3, 4)),
    ("Normalization", {"mean": [1.0, 2.0], "variance": [1.0, 4.0], "axis": 1, "invert": True}, (2,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "shape"), RESCALED, ids=str)
def test_numbers_are_keras(name, options, shape):
    x = numbers(3, *shape)
    given = options | ({"axis": options.get("axis")} if name == "Normalization" else {})
    layer = getattr(keras.layers, name)(**given)
    np.testing.assert_allclose(
        run(text_of(name, options), x), np.asarray(layer(torch.tensor(x))), rtol=SINGLE, atol=SINGLE
    )


def test_rescaling_by_channel_and_of_whole_numbers():
    x = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    made = run("Rescaling { scale: [1, 2]  offset: [0, -1] }", x)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made[:, 0], x[:, 0].astype(np.float32))
    np.testing.assert_array_equal(made[:, 1], x[:, 1] * 2.0 - 1)


# A range of one point: every draw is the same, so Keras' draw is ours.
FIXED = [
    ("RandomRotation", {"factor": [0.25, 0.25]}), ("RandomRotation", {"factor": [0.1, 0.1]}),
    ("RandomRotation", {"factor": [-0.07, -0.07]}),
    ("RandomZoom", {"height_factor": [0.5, 0.5]}), ("RandomZoom", {"height_factor": [-0.4, -0.4]}),
    ("RandomZoom", {"height_factor": [0.3, 0.3], "width_factor": [-0.2, -0.2]}),
    ("RandomTranslation", {"height_factor": [0.5, 0.5], "width_factor": [0.0, 0.0]}),
    ("RandomTranslation", {"height_factor": [-0.2, -0.2], "width_factor": [0.3, 0.3]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), FIXED, ids=str)
@pytest.mark.parametrize("fill", ["constant", "nearest"])
def test_affine_layers_are_keras(name, options, fill):
    options = options | {"fill_mode": fill, "fill_value": 3.0}
    made, theirs = (
        run(text_of(name, options), PICTURES, training=True),
        keras_run(name, options, PICTURES, training=True),
    )
    # Keras' matrices are float32: places off by 1e-6, times differences of 255 between neighbours.
    np.testing.assert_allclose(made, theirs, atol=1e-2)


def test_quarter_turn_is_counter_clockwise():
    x = numbers(2, 3, 5, 5)
    made = run("RandomRotation { factor: [0.25, 0.25] }", x, training=True)
    np.testing.assert_allclose(made, np.rot90(x, 1, axes=(2, 3)), atol=1e-12)


@pytest.mark.parametrize("factor", [[0.2, 0.2], [-0.3, -0.3]])
def test_brightness_is_keras(factor):
    options = {"factor": factor, "value_range": [0, 200]}
    made = run(text_of("RandomBrightness", options), PICTURES, training=True)
    theirs = keras_run("RandomBrightness", options, PICTURES, training=True)
    np.testing.assert_allclose(made, theirs, atol=1e-4)


def test_contrast_keeps_the_mean_and_the_range():
    x = numbers(64, 2, 4, 4, low=100, high=150)
    made = run("RandomContrast { factor: [0.5, 0.25] }", x, training=True)
    mean = x.mean((2, 3), keepdims=True)
    ratio = (made - mean) / (x - mean)
    each = ratio.mean((1, 2, 3))
    np.testing.assert_allclose(ratio, np.broadcast_to(each[:, None, None, None], ratio.shape), rtol=1e-6)
    assert each.min() >= 0.5
    assert each.max() <= 1.25
    assert each.std() > 0.1  # uniform: 0.75 / sqrt(12) = 0.22
    assert run("RandomContrast { factor: 1 }", x, training=True).max() <= 255


def test_each_sample_is_flipped_by_itself():
    x = numbers(64, 1, 2, 3)
    made = run("RandomFlip { }", x, training=True)
    kinds = [x, x[..., ::-1], x[:, :, ::-1], x[:, :, ::-1, ::-1]]
    which = np.array([[np.array_equal(made[i], k[i]) for k in kinds] for i in range(64)])
    assert (which.sum(1) == 1).all()
    assert (
        which.sum(0) > 4
    ).all()  # 16 of each are expected; 4 or fewer of one have a chance of 1e-4, and the key is fixed
    sideways = run("RandomFlip { mode: horizontal }", x, training=True)
    assert all(np.array_equal(s, a) or np.array_equal(s, a[..., ::-1]) for s, a in zip(sideways, x, strict=True))


def test_each_sample_is_cropped_at_a_place_of_its_own():
    x = numbers(64, 2, 5, 6)
    made = run("RandomCrop { height: 3  width: 4 }", x, training=True)
    places = set()
    for one, whole in zip(made, x, strict=True):
        found = [(i, j) for i in range(3) for j in range(3) if np.array_equal(one, whole[:, i : i + 3, j : j + 4])]
        assert len(found) == 1
        places.update(found)
    assert len(places) == 9  # all places occur


def test_crop_outside_training_is_the_middle():
    x = numbers(2, 1, 4, 8)
    np.testing.assert_allclose(run("RandomCrop { height: 4  width: 4 }", x), x[..., 2:6])
    assert run("RandomCrop { height: 6  width: 6 }", x, training=True).shape == (2, 1, 6, 6)


DRAWING = [
    "RandomFlip { }", "RandomRotation { factor: 0.3 }", "RandomZoom { height_factor: 0.3 }",
    "RandomContrast { factor: 0.3 }",
    "RandomTranslation { height_factor: 0.3  width_factor: 0.3 }", "RandomBrightness { factor: 0.3 }",
]  # fmt: skip


@pytest.mark.parametrize("text", DRAWING)
def test_nothing_happens_outside_training(text):
    np.testing.assert_array_equal(run(text, PICTURES), PICTURES)


@pytest.mark.parametrize("text", DRAWING)
def test_samples_draw_by_themselves_and_seeds_count(text):
    x = np.repeat(PICTURES[:1] / 2 + 60, 8, axis=0)
    made = run(text, x, training=True)
    assert any(not np.array_equal(made[0], one) for one in made[1:])
    other = text.replace("}", " seed: 5 }")
    assert not np.array_equal(run(other, x, training=True), made)


def test_zoom_keeps_the_aspect_ratio_unless_told():
    """One factor for both directions: a picture that is the same across its diagonal stays so."""
    x = (s := numbers(4, 1, 5, 5)) + s.swapaxes(2, 3)
    made = run("RandomZoom { height_factor: 0.5 }", x, training=True)
    np.testing.assert_allclose(made, made.swapaxes(2, 3), atol=1e-12)
    made = run("RandomZoom { height_factor: 0.5  width_factor: 0.5 }", x, training=True)
    assert np.abs(made - made.swapaxes(2, 3)).max() > 1e-3


@pytest.mark.parametrize("fill", ["reflect", "constant", "nearest", "wrap"])
def test_gradients_pass_to_the_pictures(fill):
    text = text_of("RandomTranslation", {"height_factor": [0.5, 0.5], "width_factor": 0.0, "fill_mode": fill})
    x = numbers(1, 1, 4, 2)
    _, grads = ours(text, [x], {}, training=True)
    assert grads["x0"].shape == x.shape
    assert np.abs(grads["x0"]).max() > 0


def test_spelled():
    assert spelled([[1, True], None]) == "[[1, true], none]"
