"""The models that come with prototorch: they load, have their parameters, read back equal, and the small ones learn."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.model.diagnose import summary
from prototorch.model.load import model_from_text
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

#: trained parameters, all at the models' defaults; for the published nets the numbers of their papers' reference code
PARAMETERS = {
    "alexnet": 60_965_224,
    "alexnet_torchvision": 61_100_840,
    "autoencoder": 111_521,
    "densenet121": 7_978_856,
    "densenet121_keras": 7_978_856,
    "googlenet": 13_378_280,
    "googlenet_torchvision": 13_004_888,
    "gpt": 366_560,
    "gpt2_small": 124_439_808,
    "lenet": 431_080,
    "lstm": 213_258,
    "lstm_classifier": 386_306,
    "mlp": 669_706,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v2_keras": 3_504_872,
    "multi_task": 795_098,
    "resnet101": 44_549_160,
    "resnet101_keras": 44_601_832,
    "resnet18": 11_689_512,
    "resnet20": 272_474,
    "resnet50": 25_557_032,
    "resnet50_keras": 25_583_592,
    "seq2seq": 165_152,
    "siamese": 217_473,
    "squeezenet": 1_248_424,
    "squeezenet1_1": 1_235_496,
    "transformer": 8_312_834,
    "two_layer": 166_110,
    "vgg16": 138_357_544,
    "vit": 138_890,
    "vit_b16": 86_567_656,
}
MODELS = sorted(shipped_models())


def test_each_model_has_its_row():
    assert sorted(PARAMETERS) == MODELS


@pytest.mark.parametrize("name", MODELS)
def test_parameters(name: str):
    assert summary(pt.load_model(name)).trainable == PARAMETERS[name]


@pytest.mark.parametrize("name", MODELS)
def test_text_is_short_and_canonical_form_is_stable(name: str):
    path = shipped_models()[name]
    text, root = path.read_text(encoding="utf-8"), str(path.parent)
    assert len(text.splitlines()) <= 90
    once = format_document(parse(text, name, trivia=True))
    assert format_document(parse(once, name, trivia=True)) == once
    assert format_document(load_text(once, root=root)) == format_document(
        load_text(text, root=root)
    )  # the layout alone has changed


@pytest.mark.parametrize("name", MODELS)
def test_text_of_the_model_reads_back_equal(name: str):
    model = pt.load_model(name)
    again = model_from_text(model.to_text())
    assert again.net == model.net
    assert (again.compile_block, again.fit_block) == (model.compile_block, model.fit_block)
    assert again.to_text() == model.to_text()


def _pictures(n: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Bright spots whose place tells the class: easy to learn in a few steps."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 10
    x = rng.integers(0, 60, (n, 1, 28, 28))
    for i, k in enumerate(labels):
        x[i, 0, 2 * k : 2 * k + 6, 2 * k : 2 * k + 6] = 250
    return x.astype(np.uint8), labels


def _tokens() -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(32) % 2
    tokens = np.random.default_rng(1).integers(2, 50, (32, 16))
    tokens[:, :8] = labels[:, None]
    return tokens.astype(np.int32), labels


SMALL: dict[str, dict] = {
    "lenet": {},
    "mlp": {"hidden": [64, 32]},
    "two_layer": {},
    "autoencoder": {},
    "siamese": {},
    "multi_task": {},
    "lstm": {"units": 16},
    "transformer": {"vocabulary": 50, "length": 16, "dim": 16},
    "lstm_classifier": {"vocabulary": 50, "length": 16, "dim": 8, "units": 8},
    "gpt": {"vocabulary": 50, "length": 16, "dim": 16, "layers": 1, "epochs": 20},
    "seq2seq": {"vocabulary": 50, "length": 16, "target_length": 16, "units": 16},
    "vit": {"patch": 7, "dim": 16, "layers": 1},
}


@pytest.mark.parametrize("name", SMALL)
def test_small_models_learn(name: str):
    model = pt.load_model(name, **SMALL[name])
    x, y = _pictures()
    if name == "siamese":
        given = {"left": x, "right": np.concatenate([x[:16], x[1:17]])}  # the second half: another class
        target = np.repeat([1.0, 0.0], 16)
    elif name in ("gpt", "seq2seq"):
        tokens, _ = _tokens()
        given, target = {"gpt": tokens, "seq2seq": [tokens, tokens]}[name], np.roll(tokens, -1, 1)
    elif name == "lstm_classifier":
        given, target = _tokens()
    elif name == "transformer":
        given, target = _tokens()
        model.compile(optimizer=pt.optimizers.Adam(3e-3), loss=model.compile_block.loss)
    elif name == "two_layer":
        given, target = x.reshape(32, -1)[:, 100:164] / 255.0, y
    elif name == "autoencoder":
        given, target = x, None
    elif name == "multi_task":
        given, target = x, {"kind": y}
    else:
        given, target = x, y
    losses = model.fit(given, target, epochs=20, batch_size=16, verbose=0, validation_split=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", ["lenet", "mlp"])
def test_small_models_learn_the_set_inside_the_package(name: str):
    model = pt.load_model(name, overrides=["fit.data.limit=512", "fit.epochs=2"])
    history = model.fit(verbose=0).history
    assert history["val_accuracy"][-1] > 0.4  # ten classes: chance is 0.1
