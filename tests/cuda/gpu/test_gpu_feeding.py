"""What a step is fed on the GPU, and partly frozen nets: beside the CPU in strict float32."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cuda.availability import unavailable_reason
from prototorch.data import Data
from tests.cuda.fake.fake_gpu import compile_net, executor_of, make_data, reference_cpu, use_backend

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

layers = pt.layers


def pair(gpu, make=None, **options):
    makers = {} if make is None else {"make": make}
    return [
        compile_net(backend, **makers, **{"optimizer": "sgd", **options}) for backend in (reference_cpu(), gpu("fp32"))
    ]


def assert_close(models, tolerance=2e-3):
    a, b = (model.get_weights() for model in models)
    for name, array in a.items():
        np.testing.assert_allclose(b[name], array, rtol=tolerance, atol=tolerance, err_msg=name)


def image_net():
    """Raw images of bytes, with the preprocessing of a pretrained net and augmentation."""
    return pt.Sequential(
        [pt.Input((3, 32, 32)), layers.Conv2D(4, 3, activation="relu"), layers.GlobalAveragePooling2D(),
         layers.Dense(3, name="logits")],
        preprocess=[layers.Resizing(40, 40), layers.CenterCrop(32, 32), layers.Rescaling(1 / 255),
                    layers.Normalization(mean=[0.485, 0.456, 0.406], variance=[0.05, 0.05, 0.05])],
        augment=[layers.RandomFlip(), layers.ZeroPadding2D(2), layers.RandomCrop(32, 32)],
    )  # fmt: skip


def test_bytes_are_preprocessed_in_the_step(gpu):
    """They are copied as bytes from where the loader's threads have put them."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (70, 3, 48, 44)).astype(np.uint8), rng.integers(0, 3, 70)
    models = pair(gpu, image_net)
    histories = [model.fit(x, y, batch_size=16, epochs=3, verbose=0, validation_split=0.2).history for model in models]
    assert_close(models)
    np.testing.assert_allclose(histories[1]["val_loss"], histories[0]["val_loss"], rtol=1e-3)
    np.testing.assert_allclose(models[1].predict(x[:20]), models[0].predict(x[:20]), rtol=1e-3, atol=1e-4)
    backend = models[1].trainer.plan_cache.backend
    assert backend.batch_memory.allocated_bytes > 0


def test_images_of_a_folder(gpu, tmp_path):
    rng = np.random.default_rng(1)
    for i in range(40):
        path = tmp_path / "abc"[i % 3] / f"{i:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (48, 44, 3)).astype(np.uint8)).save(path)
    models = pair(gpu, image_net)
    for model in models:
        model.fit(Data(source=str(tmp_path), threads=4), batch_size=16, epochs=3, verbose=0)
    assert_close(models)


def test_large_float_batches_keep_their_order_over_many_steps(gpu):
    """A block that served another batch too early would show in the weights."""
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((512, 3, 64, 64)).astype(np.float32), rng.integers(0, 3, 512)

    def make():
        return pt.Sequential([pt.Input((3, 64, 64)), layers.MaxPooling2D(8), layers.Flatten(),
                              layers.Dense(3, name="logits")])  # fmt: skip

    models = pair(gpu, make)
    for model in models:
        model.fit(x, y, batch_size=16, epochs=4, verbose=0)
    assert_close(models)
    assert not any(slot.large for slot in executor_of(models[1], "train", 16)._staging._slots)


def test_gradient_accumulation(gpu):
    x, y = make_data(48)
    models = pair(gpu, optimizer=pt.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=3))
    for model in models:
        model.fit(x, y, batch_size=8, epochs=3, verbose=0)
    assert_close(models)


def test_partly_frozen_and_unfrozen_nets(gpu):
    x, y = make_data(40)
    models = pair(gpu, freeze=["**", "!logits"])
    for model, backend in zip(models, (reference_cpu(), gpu("fp32")), strict=True):
        stages = [pt.callbacks.Unfreeze(1, "conv"), pt.callbacks.Unfreeze(2, "**", learning_rate=1e-2)]
        with use_backend(backend):
            model.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=stages)
    assert_close(models)


def test_class_weights_and_a_smaller_last_batch(gpu):
    x, y = make_data(45)
    models = pair(gpu)
    for model in models:
        model.fit(x, y, batch_size=8, epochs=3, verbose=0, class_weight={0: 1.0, 1: 2.0, 2: 0.5})
    assert_close(models)
