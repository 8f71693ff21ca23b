"""Nets whose inputs leave sizes open (``none``): the data determine them, batch by batch in a stream."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.errors import DataError
from tests.cli.test_commands import here, shell  # noqa: F401

TEXT = """
name: "open"
input { name: "x"  shape: [none, 3] }
SimpleRNN { units: 4 }
Dense { units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  metrics: [accuracy] }
fit { data { source: "d.npz" }  epochs: 2  batch_size: 8 }
"""
IMAGES = """
name: "images"
input { name: "x"  shape: [3, none, none] }
preprocess { Rescaling { scale: $(1 / 255) } }
Conv2D { filters: 2  kernel_size: 3 }
GlobalAveragePooling2D { }
Dense { units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  metrics: [accuracy] }
fit { data { source: "photos" }  epochs: 1  batch_size: 4 }
"""
RANDOM = np.random.default_rng(0)
BATCHES = [(RANDOM.normal(size=(8, n, 3)).astype(np.float32), RANDOM.integers(0, 2, 8)) for n in (5, 9, 7, 5)]


def test_run_takes_the_sizes_from_the_data(here, shell):  # noqa: F811
    np.savez("d.npz", x=np.concatenate([x[:, :5] for x, _ in BATCHES]), y=np.concatenate([y for _, y in BATCHES]))
    (here / "open.proto").write_text(TEXT)
    code, out, err = shell("run", "open.proto")
    assert code == 0, err
    assert "open: 42 parameters on " in err
    assert "evaluated model.h5 on 32 training samples" in out
    code, _, err = shell("run", "open.proto", "--resume", "--epochs", "3")
    assert code == 0, err
    assert shell("evaluate", "runs/open/model.h5")[0] == 0


def test_images_of_one_size_run_and_of_several_are_refused_with_the_file(here, shell):  # noqa: F811
    for label in "ab":
        (here / "photos" / label).mkdir(parents=True)
        for number in range(4):
            pixels = RANDOM.integers(0, 256, (12, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(here / f"photos/{label}/{number}.png")
    (here / "images.proto").write_text(IMAGES)
    code, _, err = shell("run", "images.proto")
    assert code == 0, err
    Image.fromarray(np.zeros((14, 16, 3), np.uint8)).save(here / "photos/b/0.png")
    code, _, err = shell("run", "images.proto", "--run-dir", "again")
    assert code == 4
    assert "photos/b/0.png: has 16 x 14 pixels" in err
    assert "set `size` to resize all images" in err


def test_batches_of_a_stream_may_have_other_sizes(here):  # noqa: F811
    (here / "open.proto").write_text(TEXT)
    whole, single = pt.load_model("open.proto"), pt.load_model("open.proto")
    whole.fit(lambda: iter(BATCHES), epochs=2, verbose=0)
    for _ in range(2):
        for x, y in BATCHES:
            single.train_on_batch(x, y)
    for name, array in whole.weights.items():
        assert array.tobytes() == single.weights[name].tobytes(), name
    assert whole.predict(lambda: (x for x, _ in BATCHES)).shape == (32, 2)
    assert np.isfinite(whole.evaluate(lambda: iter(BATCHES))["loss"])


def test_targets_follow_the_sizes_of_the_inputs():
    x = pt.Input((None, 3))
    made = pt.Model(x, pt.layers.Dense(2)(pt.layers.SimpleRNN(4, return_sequences=True)(x)))
    made.compile("sgd", "mse")
    made.fit(lambda: ((x, np.zeros((*x.shape[:2], 2), np.float32)) for x, _ in BATCHES), epochs=1, verbose=0)
    assert made.trainer.step == 4
    with pytest.raises(DataError, match=r"the target 'dense_1' has shape \[5, 3\] per sample"):
        made.fit(lambda: ((x, x) for x, _ in BATCHES), epochs=1, verbose=0)


def test_samples_of_different_sizes_in_a_list_are_refused_with_what_to_do(here):  # noqa: F811
    (here / "open.proto").write_text(TEXT)
    made = pt.load_model("open.proto")
    with pytest.raises(DataError, match=r"\(\[5, 3\], \[9, 3\], \[7, 3\]\) must be padded to one, or given as batches"):
        made.fit([x[0] for x, _ in BATCHES], np.array([0, 1, 0, 1]), verbose=0)
