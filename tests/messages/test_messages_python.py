"""Messages of the Python face and of data: each says what was given, what was expected, and what to write."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import DataError, TextError, UsageError
from prototorch.model.docs_pages import find_page
from prototorch.model.load import model_from_text

X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)


def model(units=3):
    return pt.Sequential([pt.Input((3,)), pt.layers.Dense(units, name="out")])


def compiled(units, loss):
    net = model(units)
    net.compile("sgd", loss)
    return net


def keras_style():
    with temporary_definitions():

        class Lin(pt.Layer):
            def __init__(self, units):
                super().__init__()
                self.units = units

            def call(self, ctx, x):
                return x

        Lin(3)


ROWS = {
    "a loss of PyTorch's face": (
        lambda: model().compile("sgd", pt.nn.CrossEntropyLoss()),
        r"compile\.loss must be a loss, not CrossEntropyLoss\(\)\. It belongs to pt\.nn, whose objects work on "
        r".*: write pt\.losses\.SparseCategoricalCrossentropy\(from_logits=True\)\.",
    ),
    "its class": (lambda: model().compile("sgd", pt.nn.MSELoss), r"write pt\.losses\.MeanSquaredError\(\)"),
    "it as a metric": (
        lambda: model().compile("sgd", "mse", [pt.nn.MSELoss()]),
        r"It belongs to pt\.nn, .* write pt\.losses\.MeanSquaredError\(\)",
    ),
    "a module as a loss": (lambda: model().compile("sgd", pt.nn.Linear(3, 3)), r"pt\.nn, .*: take one of pt\.losses"),
    "an optimizer of PyTorch's face": (
        lambda: model().compile(pt.optim.SGD([pt.zeros(3)], lr=0.1), "mse"),
        r"It belongs to pt\.optim, .*: write pt\.optimizers\.SGD\(\)",
    ),
    "the class of one": (lambda: model().compile(pt.optim.Adam, "mse"), r"write pt\.optimizers\.Adam\(\)"),
    "a module in a Sequential": (
        lambda: pt.Sequential([pt.Input((3,)), pt.nn.Linear(3, 4)]),
        r"item 1 is Linear\(.*\), not a layer; modules go into pt\.nn\.Sequential",
    ),
    "samples of another shape": (
        lambda: model().predict(np.ones((9, 4), np.float32)),
        r"the input 'input' has shape \[3\], the column 'input' has samples of shape \[4\] \(float32\); "
        r"write shape: \[4\] at the input, or give samples of shape \[3\]",
    ),
    "images without an axis of channels": (
        lambda: pt.load_model("lenet").predict(np.zeros((5, 28, 28), np.float32)),
        r"expected \[1, 28, 28\] for the input 'image'; the axis of the channels is missing: give x\[:, np\.newaxis\], "
        r"of shape \[n, 1, 28, 28\]",
    ),
    "images whose channels are last": (
        lambda: pt.load_model("lenet").predict(np.zeros((5, 28, 28, 1), np.float32)),
        r"the channels are the last axis and must be the first: give np\.moveaxis\(x, -1, 1\)",
    ),
    "labels for a loss of values": (
        lambda: compiled(3, "mse").fit(X, np.arange(9) % 3, verbose=0),
        r"expects \[3\]; they look like class labels: take the loss sparse_categorical_crossentropy \{ from_logits: "
        r"true \} .*; of numbers to predict give .*'out'.* one unit",
    ),
    "an attribute of a layer": (
        keras_style,
        r"Lin has no field 'units', .*: declare it in the class, `class Lin\(Layer\): units: int = 8`, and leave",
    ),
    "open sizes of an export": (
        lambda: pt.Model(
            [a := pt.Input((None, 3), name="a"), b := pt.Input((None, 3), name="b")], pt.layers.Add()(a, b)
        ).export("unused.onnx", "onnx"),
        r"the inputs 'a' and 'b' have unknown sizes; call build\(a=\[\.\.\., 3\], b=\[\.\.\., 3\]\) first",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_message_says_what_to_write(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, text = ROWS[row]
    with pytest.raises((UsageError, DataError, AttributeError), match=text):
        call()


def test_open_sizes_of_an_export_are_named_at_once(tmp_path):
    a, b = pt.Input((None, 3), name="a"), pt.Input((None, 3), name="b")
    net = pt.Model([a, b], pt.layers.Add()([a, b]))
    net.build(a=(4, 3), b=(4, 3))
    text = (
        r"the inputs 'a' and 'b' leave sizes open \('a' has \[none, 3\]; 'b' has \[none, 3\]\); give the shapes: "
        r"shapes=\{'a': \(\.\.\., 3\), 'b': \(\.\.\., 3\)\}"
    )
    with pytest.raises(UsageError, match=text):
        net.export(tmp_path / "m.onnx")
    fresh = pt.Model([a, b], pt.layers.Dense(2)(pt.layers.Add()([a, b])))
    fresh.export(tmp_path / "m.onnx", shapes={"a": (4, 3), "b": (4, 3)})
    assert (tmp_path / "m.onnx").stat().st_size


LAYERS = {
    "Exp": "Did you mean 'Exponential'",
    "AbsVal": "Did you mean 'Abs'",
    "Upsample": r"Did you mean 'UpSampling2D'",
    "Rescale": "Did you mean 'Rescaling'",
    "Reduction": "Write ReduceSum, ReduceMean, ReduceMax or ReduceMin",
    "Silence": "leave it out",
    "MVN": "Did you mean 'MeanVarianceNormalization'",
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_other_systems(name):
    with pytest.raises(TextError, match=rf"There is no layer or block named '{name}'\. .*{LAYERS[name]}"):
        model_from_text(f"input {{ shape: [3] }}\n{name} {{ }}\n")


def test_more_outputs_than_the_data_have_classes(tmp_path, capsys, monkeypatch):
    from PIL import Image

    from prototorch.cli.main import main

    monkeypatch.chdir(tmp_path)
    for index, name in enumerate(("ant", "bee", "cat", "dog", "eel")):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (8, 8), (40 * index, 20 * number, 0)).save(folder / f"{number}.png")
    text = (
        "input {{ shape: [3, 8, 8] }}\npreprocess {{ Rescaling {{ scale: $(1 / 255) }} }}\n"
        "Flatten {{ }}\nDense {{ units: {units} }}\n"
        "compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }} }}\n"
        'fit {{ data {{ source: "photos" }} }}\n'
    )
    (tmp_path / "seven.proto").write_text(text.format(units=7))
    (tmp_path / "five.proto").write_text(text.format(units=5))
    for file in ("seven.proto", "five.proto"):
        with pytest.raises(SystemExit):
            main(["check", file])
        output = "".join(capsys.readouterr())
        said = "the data have 5 classes (ant, bee, cat, dog, eel), " in output and "has 7: write units: 5" in output
        assert said == (file == "seven.proto"), output
    with pytest.warns(pt.data.DataWarning, match=r"the data have 5 classes .* has 7: write units: 5"):
        pt.load_model("seven.proto").fit(verbose=0)


@pytest.mark.parametrize("name", ["input", "preprocess", "augment", "weights"])
def test_blocks_of_a_text_have_a_manual_page(name):
    page = str(find_page(name))
    assert page.startswith(f"{name} {{ }}")
    assert "Examples:" in page or "Fields:" in page


def test_words_of_the_language_name_their_page():
    with pytest.raises(UsageError, match=r"'repeat' is a word of the model language, which docs/language\.md explains"):
        find_page("repeat")
