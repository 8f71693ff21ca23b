"""Models that are valid and probably unintended: reported by compile and fit in Python, by `run` and by `check`."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli.main import main
from prototorch.errors import ModelWarning
from prototorch.model.diagnose import find_warnings
from prototorch.model.load import model_from_text

TEXT = """
name: "noted"
input {{ name: "x"  shape: [4] }}
{layers}
compile {{ loss: {loss} }}
"""
SPARSE, LOGITS = "sparse_categorical_crossentropy", "sparse_categorical_crossentropy { from_logits: true }"


def dense(activation: str, units: int = 3) -> str:
    return f'Dense {{ name: "y"  units: {units}  activation: {activation} }}'


@pytest.mark.parametrize(
    ("layers", "loss", "message"),
    [
        (dense("softmax"), LOGITS, "takes logits .* 'y' ends with Softmax"),
        (dense("sigmoid"), "binary_crossentropy { from_logits: true }", "takes logits .* 'y' ends with Sigmoid"),
        (dense("relu"), LOGITS, "takes logits .* 'y' ends with ReLU, whose values lie between 0 and inf"),
        (dense("tanh"), LOGITS, "takes logits .* Tanh, whose values lie between -1 and 1"),
        (dense("linear"), SPARSE, "takes probabilities, but 'y' has the activation Linear.*activation: softmax"),
        (dense("gelu"), "categorical_crossentropy", "takes probabilities, but 'y' has the activation GELU"),
        (dense("relu"), "binary_crossentropy", "takes probabilities, .* ReLU.*activation: sigmoid"),
        (dense("linear"), "kl_divergence", "takes probabilities, .* Linear.*activation: softmax"),
        (dense("linear"), "poisson", "Poisson takes values of at least 0, but 'y' has the activation Linear"),
        (dense("sigmoid"), SPARSE, "Sigmoid, whose elements do not add up to 1"),
        (dense("linear") + " Softmax { } Reshape { target_shape: [3] }", LOGITS, "'softmax_1' ends with Softmax"),
        (dense("linear") + " Activation { activation: sigmoid }", LOGITS, "'activation_1' ends with Sigmoid"),
        (dense("softmax", 1), "mse", "Softmax over one element, which is always 1"),
        (dense("softmax", 1), "binary_crossentropy", "Softmax over one element, which is always 1"),
        ("preprocess { ZeroPadding1D { padding: 1 } }" + dense("linear"), LOGITS, None),
        (dense("linear"), LOGITS, None),
        (dense("softmax"), SPARSE, None),
        (dense("softmax"), "kld", None),
        (dense("sigmoid"), "binary_crossentropy", None),
        (dense("log_softmax"), LOGITS, None),
        (dense("leaky_relu"), LOGITS, None),
        (dense("relu"), "mse", None),
        (dense("softplus"), "poisson", None),
        (dense("linear") + " BatchNormalization { }", SPARSE, None),  # not known without its weights
    ],
)
def test_losses_that_do_not_fit_what_the_output_ends_with(layers, loss, message):
    model = model_from_text(TEXT.format(layers=layers, loss=loss))
    notes = find_warnings(model)
    assert len(notes) == (message is not None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = model.trainer  # opening a model warns of nothing
        assert not caught
        model.compile(loss=[one.type for one in model.compile_block.loss])
    assert [(w.category, str(w.message)) for w in caught] == [(ModelWarning, note) for note in notes]
    assert all(w.filename == __file__ for w in caught)
    if message is not None:
        with pytest.warns(ModelWarning, match=message):
            warnings.warn(notes[0], ModelWarning, stacklevel=1)


def test_fit_of_a_text_warns_once():
    model = model_from_text(TEXT.format(layers=dense("linear"), loss=SPARSE))
    x, y = np.random.default_rng(0).standard_normal((8, 4)), np.arange(8) % 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            model.fit(x, y, epochs=2, verbose=0)
            model.evaluate(x, y)
            model.train_on_batch(x, y)
    assert [w.category for w in caught] == [ModelWarning]


CROPPED = """
name: "cropped"
input { name: "image"  shape: [1, 8, 8] }
preprocess { %s }
augment { %s }
Flatten { }
Dense { units: 10 }
compile { loss: sparse_categorical_crossentropy { from_logits: true } }
fit { data { source: "fashion-mnist-mini"  limit: 8 } }
"""


@pytest.mark.parametrize(
    ("preprocess", "augment", "noted"),
    [
        ("ZeroPadding2D { padding: 4 } RandomCrop { height: 8  width: 8 }", "RandomFlip { }", True),
        ('RandomCrop { name: "cut"  height: 8  width: 8 } RandomFlip { }', "", True),
        ("Resizing { height: 8  width: 8 } RandomFlip { } GaussianNoise { stddev: 1 }", "", False),
        ("Resizing { height: 8  width: 8 }", "ZeroPadding2D { padding: 4 } RandomCrop { height: 8  width: 8 }", False),
    ],
)
def test_a_random_crop_in_preprocess_is_another_layer_outside_training(preprocess, augment, noted):
    notes = find_warnings(model_from_text(CROPPED % (preprocess, augment)))
    assert len(notes) == noted
    if noted:
        assert "RandomCrop" in notes[0]
        assert "augment { ZeroPadding2D" in notes[0]


def test_the_commands_print_them_as_single_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    layers = "ZeroPadding2D { padding: 4 } RandomCrop { height: 8  width: 8 }"
    (tmp_path / "m.proto").write_text(CROPPED % (layers, ""))
    for command in (["check", "m.proto"], ["run", "m.proto", "--quiet", "--set", "fit.data.limit=64"]):
        with pytest.raises(SystemExit) as done:
            main(command)
        assert done.value.code == 0
        out, err = capsys.readouterr()
        lines = [line for line in (out + err).splitlines() if line.startswith("warning: ")]
        assert sum("RandomCrop" in line for line in lines) == 1
        assert "ModelWarning" not in out + err


def test_saved_models_predict_without_warnings(tmp_path):
    model = model_from_text(TEXT.format(layers=dense("linear"), loss=SPARSE))
    model.build()
    model.save(tmp_path / "m.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pt.load_model(tmp_path / "m.h5").predict(np.zeros((2, 4))).shape == (2, 3)
