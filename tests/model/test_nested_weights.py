"""Weights and preprocessing of a net in a net."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import prototorch as pt
from prototorch.data.builtin_datasets import load_builtin_dataset
from prototorch.errors import ModelWarning, UsageError
from prototorch.model.diagnose import check_model, find_warnings
from tests.text.nested_folder import BASE, model_of, write_nets


@pytest.fixture
def folder(tmp_path):
    return write_nets(tmp_path)


# ---------------------------------------------------------------------- weights

FINE_TUNED = """
name: "three"
input("image", [1, 28, 28])
Net("lenet", weights: "fashion-mnist", output: "dense_1", trainable: false)
Dense(3, name: "logits")
compile {
  loss: sparse_categorical_crossentropy(from_logits: true)
  optimizer: Adam(1e-3)
  metrics: [accuracy]
  seed: 1
}
"""


@pytest.fixture(scope="module")
def three_classes():
    """Images of trousers, bags and boots, from the part of Fashion-MNIST that is in the package."""
    sets = load_builtin_dataset("fashion-mnist-mini")
    return _of_classes(sets["train"], 150), _of_classes(sets["test"], 100)


def _of_classes(data, count):
    x, y = data.column_array("image"), data.column_array("label")
    at = np.flatnonzero(np.isin(y, (1, 8, 9)))[:count]
    return x[at], np.searchsorted((1, 8, 9), y[at])


def test_fine_tuning_trains_the_head_alone_and_is_saved(folder, three_classes):
    (x, y), (x_test, y_test) = three_classes
    model = model_of(folder, FINE_TUNED)
    lenet = pt.load_model("lenet", weights="fashion-mnist")
    start = {name: np.array(array) for name, array in model.weights.items()}
    for name, array in lenet.weights.items():
        if f"lenet/{name}" in start:
            np.testing.assert_array_equal(start[f"lenet/{name}"], array)
    model.fit(x, y, epochs=3, batch_size=32, verbose=0)
    assert model.evaluate(x_test, y_test, verbose=0)["accuracy"] > 0.9
    after = model.weights
    assert all(np.array_equal(after[n], start[n]) == n.startswith("lenet/") for n in start)
    model.save(folder / "three.h5")
    expected = model.predict(x_test)
    code = (
        "import sys, numpy as np, prototorch as pt\n"
        "m = pt.load_model(sys.argv[1]); np.save(sys.argv[3], m.predict(np.load(sys.argv[2])))"
    )
    np.save(folder / "x.npy", x_test)
    subprocess.run([sys.executable, "-c", code, folder / "three.h5", folder / "x.npy", folder / "y.npy"], check=True)
    np.testing.assert_array_equal(np.load(folder / "y.npy"), expected)
    onnxruntime = pytest.importorskip("onnxruntime")
    model.export(folder / "three.onnx")
    session = onnxruntime.InferenceSession(folder / "three.onnx")
    (result,) = session.run(None, {session.get_inputs()[0].name: x_test})
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def test_weights_are_loaded_once_and_not_over_a_saved_or_resumed_model(folder, three_classes):
    x, y = three_classes[0]
    text = FINE_TUNED.replace(", trainable: false", "")
    whole = model_of(folder, text)
    whole.fit(x, y, epochs=2, batch_size=32, verbose=0)
    half = model_of(folder, text)
    half.fit(x, y, epochs=1, batch_size=32, verbose=0)
    half.save(folder / "half.h5")
    again = pt.load_model(folder / "half.h5")
    for name, array in half.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)
    assert again.to_text() == half.to_text()
    again.fit(x, y, epochs=2, initial_epoch=1, batch_size=32, verbose=0)
    for name, array in whole.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)


def test_a_saved_model_as_a_net_brings_its_arrays(folder):
    inner = model_of(folder, BASE)
    inner.compile_block = None
    inner.save(folder / "trained.h5")
    outer = model_of(folder, 'input("x", [6])\nNet("trained.h5", output: "a", name: "n")\nDense(2)\n')
    np.testing.assert_array_equal(outer.weights["n/a/kernel"], inner.weights["a/kernel"])
    anew = model_of(folder, 'input("x", [6])\nNet("trained.h5", weights: none, output: "a", name: "n")\nDense(2)\n')
    assert not np.array_equal(anew.weights["n/a/kernel"], inner.weights["a/kernel"])
    assert "into" in outer.to_text()
    assert "into" not in anew.to_text()
    outer.save(folder / "outer.h5")
    os.remove(folder / "trained.h5")
    np.testing.assert_array_equal(pt.load_model(folder / "outer.h5").weights["n/a/kernel"], inner.weights["a/kernel"])


def test_files_of_weights_are_found_from_the_text_that_names_them(folder, monkeypatch):
    inner = model_of(folder, BASE)
    (folder / "parts").mkdir()
    inner.save_weights(folder / "parts" / "w.h5") if hasattr(inner, "save_weights") else inner.save(
        folder / "parts" / "w.h5"
    )
    (folder / "parts" / "base.proto").write_text(BASE + 'weights { source: "w.h5" }\n')
    (folder / "parts" / "mid.proto").write_text('input("x", [6])\nNet("base.proto", name: "m")\nDense(1)\n')
    for text in (
        'input("x", [6])\nNet("parts/base.proto", name: "n")\n',
        'input("x", [6])\nNet("base.proto", weights: "parts/w.h5", name: "n")\n',
        'input("x", [6])\nNet("parts/mid.proto", name: "n")\n',
    ):
        outer = model_of(folder, text)
        name = "n/m/a/kernel" if "mid" in text else "n/a/kernel"
        np.testing.assert_array_equal(outer.weights[name], inner.weights["a/kernel"])


@pytest.mark.parametrize("output", ["a", "b"])
def test_files_of_other_systems_load_into_a_net(folder, output):
    import torch

    torch.manual_seed(0)
    net = torch.nn.ModuleDict({"a": torch.nn.Linear(6, 4), "b": torch.nn.Linear(4, 5)})
    torch.save(net.state_dict(), folder / "w.pt")
    outer = model_of(folder, f'input("x", [6])\nNet("base.proto", weights: "w.pt", output: "{output}", name: "n")\n')
    for name in ("a", "b") if output == "b" else ("a",):
        np.testing.assert_array_equal(outer.weights[f"n/{name}/kernel"], net[name].weight.detach().numpy().T)


def test_uses_that_share_their_weights_load_them_once(folder):
    inner = model_of(folder, BASE)
    inner.save(folder / "trained.h5")
    text = (
        'input("p", [6])\ninput("q", [6])\n'
        'Net("trained.h5", name: "left", bottom: "p", shared_weights: "tower")\n'
        'Net("trained.h5", name: "right", bottom: "q", shared_weights: "tower")\n'
        'Subtract { bottom: ["left", "right"] }\n'
    )
    outer = model_of(folder, text)
    assert outer.to_text().count("weights {") == 1
    np.testing.assert_array_equal(outer.weights["tower/b/kernel"], inner.weights["b/kernel"])


def test_a_digest_and_weights_that_do_not_fit_name_both_sides(folder):
    inner = model_of(folder, BASE)
    inner.save(folder / "trained.h5")
    with pytest.raises(
        pt.errors.WeightsError, match=r"outer.proto:2:(.|\n)*the text states the digest sha256:00000000"
    ):
        model_of(folder, 'input("x", [6])\nNet("base.proto", weights: "trained.h5", digest: "sha256:00000000")\n')
    with pytest.raises(pt.errors.WeightsError, match=r"outer.proto:2:(.|\n)*trained.h5(.|\n)*a/kernel"):
        model_of(folder, 'input("x", [6])\nNet("base.proto", weights: "trained.h5", width: 9)\n')
    with pytest.raises(
        UsageError, match=r"outer.proto:2:(.|\n)*belongs to the model 'lenet', whose weights have other shapes: logits"
    ):
        model_of(folder, 'input("x", [1, 28, 28])\nNet("lenet", weights: "fashion-mnist", classes: 3)\n')


def test_weights_of_the_caller_take_the_place_of_those_of_a_net(folder):
    first = model_of(folder, FINE_TUNED, weights=False)
    lenet = pt.load_model("lenet", weights="fashion-mnist")
    assert not np.array_equal(first.weights["lenet/conv2d_1/kernel"], lenet.weights["conv2d_1/kernel"])
    assert "into" in first.to_text()
    first.save(folder / "first.h5")
    second = model_of(folder, FINE_TUNED, weights=folder / "first.h5")
    np.testing.assert_array_equal(second.weights["lenet/conv2d_1/kernel"], first.weights["lenet/conv2d_1/kernel"])


def test_a_head_of_other_classes_is_left_out(folder):
    lenet = pt.load_model("lenet", weights="fashion-mnist")
    text = 'input("x", [1, 28, 28])\nNet("lenet", classes: 3, weights: "fashion-mnist", except: "logits/*")\n'
    model = model_of(folder, text)
    np.testing.assert_array_equal(model.weights["lenet/dense_1/kernel"], lenet.weights["dense_1/kernel"])
    assert model.weights["lenet/logits/kernel"].shape == (500, 3)
    assert not model.net.class_names


def test_the_whole_of_a_net_has_its_classes_and_predicts_alike(folder, three_classes):
    x = three_classes[1][0]
    lenet = pt.load_model("lenet", weights="fashion-mnist")
    model = model_of(folder, 'input("x", [1, 28, 28])\nNet("lenet", weights: "fashion-mnist")\n')
    assert model.net.class_names == lenet.net.class_names
    np.testing.assert_array_equal(model.predict(x), lenet.predict(x))


def test_weights_may_be_given_by_a_block_and_in_python(folder):
    lenet = pt.load_model("lenet", weights="fashion-mnist")
    text = FINE_TUNED.replace('weights: "fashion-mnist", ', "")
    block = 'weights { source: "fashion-mnist"  into: "lenet"  model: "lenet"  partial: true }\n'
    model = model_of(folder, text + block)
    np.testing.assert_array_equal(model.weights["lenet/conv2d_1/kernel"], lenet.weights["conv2d_1/kernel"])
    model = model_of(folder, text)
    model.load_weights(pt.Weights("fashion-mnist", into="lenet", model="lenet", partial=True))
    np.testing.assert_array_equal(model.weights["lenet/conv2d_1/kernel"], lenet.weights["conv2d_1/kernel"])
    with pytest.raises(UsageError, match=r"there are no layers below 'lenett'; there are lenet"):
        model.load_weights(pt.Weights("fashion-mnist", into="lenett", model="lenet"))


def test_batch_normalization_in_a_frozen_net_keeps_its_statistics(folder):
    (folder / "bn.proto").write_text('input("x", [6])\nDense(4, name: "d")\nBatchNormalization(name: "bn")\n')
    model = model_of(
        folder, 'input("x", [6])\nNet("bn.proto", trainable: false)\nDense(1)\ncompile { loss: mse  optimizer: adam }\n'
    )
    start = {name: np.array(array) for name, array in model.weights.items()}
    x = np.random.default_rng(0).normal(3, 2, (32, 6)).astype(np.float32)
    model.fit(x, x[:, :1], epochs=2, verbose=0)
    same = {name for name, array in model.weights.items() if np.array_equal(array, start[name])}
    assert same == {n for n in start if n.startswith("bn/")}


# ---------------------------------------------------------------------- preprocessing, and what is left out


def notes_of(folder, text):
    (folder / "outer.proto").write_text(text)
    model = check_model(str(folder / "outer.proto"))
    return model, list(model.net.notes), find_warnings(model)


def test_the_preprocess_of_a_net_is_taken_and_reported(folder):
    model, notes, warned = notes_of(folder, FINE_TUNED)
    assert [type(layer).__name__ for layer in model.net.preprocess] == ["Rescaling"]
    assert any("preprocess is that of the net lenet: Rescaling" in note for note in notes)
    assert any("of the net lenet the layers are used, not its compile and fit" in note for note in notes)
    assert not warned
    lines = []
    model.summary(print_fn=lines.append)
    assert "note: " in lines[0]
    assert "preprocess is that of the net lenet" in lines[0]


def test_another_preprocess_of_the_text_counts_and_is_a_warning(folder):
    text = FINE_TUNED.replace("Net(", "preprocess { Rescaling { scale: 0.5 } }\nNet(")
    model, _, warned = notes_of(folder, text)
    assert model.net.preprocess[0].scale == (0.5,)
    assert any(
        "was made for another preprocess, Rescaling { scale: 0.0039" in w and "Rescaling { scale: 0.5 }" in w
        for w in warned
    )
    with pytest.warns(ModelWarning, match="were trained for the preprocess"):
        loaded = model_of(folder, text)
    assert loaded.net.preprocess[0].scale == (0.5,)
    same = FINE_TUNED.replace("Net(", "preprocess { Rescaling { scale: $(1 / 255) } }\nNet(")
    assert not notes_of(folder, same)[2]


def test_the_preprocess_of_a_net_behind_layers_is_left_out(folder):
    text = 'input("image", [1, 28, 28])\nConv2D(1, 1)\nNet("lenet")\n'
    model, _, warned = notes_of(folder, text)
    assert not model.net.preprocess
    assert any("reads no input of this text, so that its preprocess is left out" in w for w in warned)


def test_check_tells_notes_as_data(folder):
    (folder / "outer.proto").write_text(FINE_TUNED)
    command = [sys.executable, "-m", "prototorch", "check", str(folder / "outer.proto"), "--json"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    notes = json.loads(result.stdout)["notes"]
    assert any("preprocess is that of the net lenet" in note for note in notes)
