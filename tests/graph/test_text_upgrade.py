"""`fmt --upgrade`: a text of format 1 with the axis of the channels that its layers meant."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli.main import main
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError
from prototorch.graph.text_upgrade import current_text, upgrade_document
from prototorch.layers.base import Layer
from prototorch.layers.channels import ChannelAxisLayer
from prototorch.model.load import model_from_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document


def command(*args):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ending:
        main(list(args))
    return ending.value.code


def upgraded(text):
    return format_document(upgrade_document(parse(text, None, trivia=True))).strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "Conv1D { filters: 2  kernel_size: 3 }",
            "Conv1D { filters: 2  kernel_size: 3  data_format: channels_first }",
        ),
        ("MaxPool1D { }  # as pooled", "MaxPool1D { data_format: channels_first }  # as pooled"),
        ("BatchNormalization { }", "BatchNormalization { axis: 1 }"),
        ("batch_normalization { scale: false }", "batch_normalization { scale: false  axis: 1 }"),
        ("Concatenate { }", "Concatenate { axis: 1 }"),
        ("Rescaling { scale: [1, 2] }", "Rescaling { scale: [1, 2]  data_format: channels_first }"),
        ("TimeDistributed { layer: MaxPooling1D }", None),
        ("TimeDistributed { layer: MaxPooling1D { } }", None),
        (
            "block b(n) {\n  Conv1D { filters: $n  kernel_size: 1 }\n}",
            "block b(n) {\n  Conv1D { filters: $n  kernel_size: 1  data_format: channels_first }\n}",
        ),
        ("repeat 2 { Cropping1D { } }", "repeat 2 { Cropping1D { data_format: channels_first } }"),
        (
            "if $(1 > 0) { Cropping1D { } } else { Concatenate { } }",
            "if $(1 > 0) { Cropping1D { data_format: channels_first } } else { Concatenate { axis: 1 } }",
        ),
        (
            "Add { branch { Cropping1D { } }  branch { } }",
            "Add { branch { Cropping1D { data_format: channels_first } }  branch { } }",
        ),
        (
            "preprocess { Normalization { mean: [1, 2]  variance: 1 } }",
            "preprocess { Normalization { mean: [1, 2]  variance: 1  axis: 1 } }",
        ),
    ],
)
def test_what_a_layer_meant_is_written_out(old, new):
    expected = "TimeDistributed { layer: MaxPooling1D { data_format: channels_first } }" if new is None else new
    assert upgraded(old) == expected
    assert upgraded(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Conv2D { filters: 2  kernel_size: 3 }",
        "LRN { }",
        "Rescaling { scale: 0.5 }",
        "BatchNormalization { axis: -1 }",
        "Conv1D { filters: 2  kernel_size: 3  data_format: channels_last }",
        "LayerNormalization { }",
        "data_format: channels_last\nConv1D { filters: 2  kernel_size: 3 }",
        "block Conv1D(n) { Dense { units: $n } }\nConv1D { n: 3 }",
    ],
)
def test_what_means_what_it_meant_stays(text):
    document = parse(text, None)
    assert upgrade_document(document) == document


@pytest.mark.parametrize("name", [n for n, c in Layer.members().items() if issubclass(c, ChannelAxisLayer)])
def test_each_example_upgraded_has_its_channels_at_axis_1(name):
    """Of any layer, for samples of two axes: the upgraded text records what it recorded with its channels first."""
    for one in Layer.members()[name].examples:
        if len(one.inputs[0]) > 2 or "data_format" in one.text or "axis" in one.text:
            continue
        layer = parse_layer(current_text(one.text, 1))
        if type(layer).__name__ == "LRN" or name == "Rescaling":
            continue
        if "axis" in type(layer).specs():
            assert layer.channel_axis(3) == 1
        else:
            assert not layer.has_channels_last(2)


def test_a_text_of_caffe_is_refused(tmp_path, capsys):
    (tmp_path / "net.prototxt").write_text('layer { name: "a" type: "ReLU" bottom: "x" top: "x" }')
    assert command("fmt", "--upgrade", str(tmp_path / "net.prototxt")) == 2
    assert "is a text of Caffe" in capsys.readouterr().err


_RUN = """
name: "series"
input { name: "x"  shape: [4, 6] }
Conv1D { name: "conv"  filters: 4  kernel_size: 3  padding: same }
BatchNormalization { name: "norm" }
Flatten { name: "flat" }
Dense { name: "y"  units: 1 }
compile { optimizer: Adam { }  loss: mse  seed: 1 }
fit { data { source: "DATA" }  epochs: EPOCHS  batch_size: 4 }
"""


def _as_format_1(path):
    """Give a saved model the number of the format in which its text meant the channels at axis 1."""
    contents = container.read(path)
    container.write(path, contents.arrays, {**contents.meta, "format": 1})


def test_a_snapshot_of_format_1_resumes_with_its_upgraded_text_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("data.npz", x=rng.normal(size=(12, 4, 6)).astype("float32"), y=rng.normal(size=(12, 1)).astype("float32"))
    old = _RUN.replace("DATA", "data.npz")
    new = upgraded(old)

    def train(text, epochs, *options):
        Path("series.proto").write_text(text.replace("EPOCHS", str(epochs)))
        return command("run", "series.proto", "--quiet", *options)

    assert train(new, 4, "--run-dir", "whole") == 0
    assert train(new, 2, "--run-dir", "parts") == 0
    for path in Path("parts").glob("*.h5"):  # as an older version wrote it: the same net by the text of its time
        contents = container.read(path)
        text = str(contents.meta["model_text"])
        text = text.replace("  data_format: channels_first", "").replace("  axis: 1", "")
        assert text != contents.meta["model_text"]
        container.write(path, contents.arrays, {**contents.meta, "format": 1, "model_text": text})
    shutil.copytree("parts", "loose")
    capsys.readouterr()
    assert train(old, 4, "--run-dir", "loose", "--resume") == 2
    assert "prototorch fmt --upgrade" in capsys.readouterr().err
    assert train(new, 4, "--run-dir", "parts", "--resume") == 0
    whole, parts = pt.load_model("whole/model.h5"), pt.load_model("parts/model.h5")
    for name, array in whole.weights.items():
        np.testing.assert_array_equal(parts.weights[name], array)


def test_a_net_over_images_resumes_with_the_text_that_it_had(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """
    name: "images"
    input { shape: [1, 28, 28] }
    preprocess { Rescaling { scale: 0.004 } }
    Conv2D { filters: 2  kernel_size: 3 }  BatchNormalization { }  Flatten { }  Dense { units: 10 }
    compile { optimizer: sgd  loss: sparse_categorical_crossentropy { from_logits: true } }
    fit { data { source: "fashion-mnist-mini"  limit: 64 }  epochs: EPOCHS }
    """
    for epochs, resume in ((1, ()), (2, ("--resume",))):
        Path("images.proto").write_text(text.replace("EPOCHS", str(epochs)))
        assert command("run", "images.proto", "--quiet", "--run-dir", "run", *resume) == 0
        for path in Path("run").glob("*.h5"):
            _as_format_1(path)


def test_saved_models_are_of_format_2(tmp_path):
    model = model_from_text("input { shape: [5, 3] }  BatchNormalization { }")
    model.save(tmp_path / "m.h5")
    assert container.read(tmp_path / "m.h5").meta["format"] == 2
    assert pt.load_model(tmp_path / "m.h5").weights["batch_normalization_1/gamma"].shape == (3,)
    _as_format_1(tmp_path / "m.h5")
    with pytest.raises(ModelFileError, match="gamma"):  # its gamma has the size of the last axis
        pt.load_model(tmp_path / "m.h5")
