"""The model's own preparation in several threads, beside a step that has the processor to itself."""

import threading

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.cpu import LEVELS
from prototorch.engine.backends.cpu import cpu as backend
from prototorch.engine.backends.cpu.worker_pool import single_threaded
from prototorch.errors import ModelWarning, PrototorchError
from prototorch.model.load import load_model
from prototorch.train.preprocessing import Preprocessor

TEXT = """
name: "prepared"
input { name: "image"  shape: [3, 9, 9] }
preprocess { Rescaling { scale: 0.01 } }
augment { RandomFlip { }  RandomRotation { factor: 0.1 } }
Flatten { }
Dense { units: 2 }
"""


@pytest.mark.parametrize("level", LEVELS)
def test_threads_prepare_the_same_bits(tmp_path, level):
    (tmp_path / "net.proto").write_text(TEXT)
    prepare = Preprocessor(load_model(tmp_path / "net.proto").net, backend(level))
    pictures = np.random.default_rng(0).integers(0, 256, (8, 3, 9, 9)).astype(np.uint8)
    wanted = [prepare(pictures, True, lambda k=k: k) for k in range(6)]
    found = {}

    def work(k):
        with single_threaded():
            found[k] = prepare(pictures, True, lambda: k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    again = prepare(pictures, True, lambda: 0)
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(again, wanted[0])
    for k in range(6):
        np.testing.assert_array_equal(found[k], wanted[k])


def test_a_key_is_drawn_only_where_something_is_random(tmp_path):
    (tmp_path / "net.proto").write_text(TEXT)
    prepare = Preprocessor(load_model(tmp_path / "net.proto").net, backend())
    pictures = np.zeros((2, 3, 9, 9), np.uint8)
    asked = []
    prepare(pictures, False, lambda: asked.append(1) or 0)
    assert asked == []
    prepare(pictures, True, lambda: asked.append(1) or 0)
    assert asked == [1]


def test_augment_leaves_the_shape_as_it_is():
    """Else the net would get another shape in training than elsewhere."""
    layers = pt.layers
    x, y = np.zeros((8, 1, 12, 12), np.uint8), np.arange(8) % 2

    def fitted(shape, **preparation):
        image = pt.Input(shape)
        made = pt.Model(image, layers.Dense(2, activation="softmax")(layers.Flatten()(image)), **preparation)
        made.compile("sgd", "sparse_categorical_crossentropy")
        made.fit(x, y, batch_size=4, epochs=1, verbose=0)
        assert made.predict(x).shape == (8, 2)

    crop = layers.RandomCrop(8, 8)
    words = r"augment changes the shape of samples from \[1, 12, 12\] to \[1, 8, 8\],.* RandomCrop { height: 12"
    with pytest.raises(PrototorchError, match=words):
        fitted((1, 12, 12), augment=[crop])
    with pytest.warns(ModelWarning, match="RandomCrop"):
        fitted((1, 8, 8), preprocess=[crop])
    fitted((1, 12, 12), augment=[layers.ZeroPadding2D(2), layers.RandomCrop(12, 12)])


def test_the_standard_augmentation_of_small_images_runs_in_training_only():
    """resnet20's: pad by 4, crop 32 x 32 at random, flip. Outside training the images are only normalized."""
    prepare = Preprocessor(load_model("resnet20").net, backend())
    images = np.random.default_rng(1).integers(0, 256, (16, 3, 32, 32)).astype(np.uint8)
    plain = prepare(images, False)
    mean, variance = np.array([125.3, 123.0, 113.9]), np.array([3969, 3856.4, 4448.9])
    expected = (images - mean[:, None, None]) / np.sqrt(variance)[:, None, None]
    np.testing.assert_allclose(plain, expected, atol=1e-5)
    augmented = prepare(images, True, lambda: 7)
    assert augmented.shape == images.shape
    padded = np.pad(plain, ((0, 0), (0, 0), (4, 4), (4, 4)))
    places = set()
    for one, image in zip(augmented, padded, strict=True):
        crops = {
            (top, left, flip): image[:, top : top + 32, left : left + 32][..., ::flip]
            for top in range(9)
            for left in range(9)
            for flip in (1, -1)
        }
        places |= {place for place, crop in crops.items() if np.array_equal(crop, one)}
    assert len(places) > 8  # one for each image, some perhaps the same
    assert {flip for *_, flip in places} == {1, -1}
