"""`prototorch predict` on nets of Caffe: the order of channels, mean, scale, names of classes, blobs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from prototorch.caffe.interop.image_inputs import read_mean
from prototorch.caffe.interop.wire import encode
from prototorch.caffe.text.message import Message
from prototorch.cli import main

NET = """
name: "pooled"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "norm" type: "Power" bottom: "data" top: "x" power_param { scale: 0.5 } }
layer { name: "relu" type: "ReLU" bottom: "x" top: "x" }
layer { name: "pool" type: "Pooling" bottom: "x" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "flat" type: "Flatten" bottom: "pool" top: "flat" }
"""


@pytest.fixture
def shell(tmp_path, monkeypatch, capfd):
    """A net and a picture in the working directory, and a function that runs predict: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy.prototxt").write_text(NET)
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[:] = (200, 100, 40)  # red, green, blue
    Image.fromarray(pixels).save("cat.png")

    def run(*args):
        with pytest.raises(SystemExit) as done:
            main(["predict", "deploy.prototxt", *args])
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def flat(out):
    return json.loads(out)[0]["outputs"]["flat"]


def test_images_are_blue_green_red_and_what_was_assumed_is_said(shell):
    code, out, err = shell("cat.png", "--json")
    assert code == 0
    np.testing.assert_allclose(flat(out), [20, 50, 100])
    assert "stretched to 4x4, channels blue, green, red, 0 to 255, no mean is subtracted" in err


@pytest.mark.parametrize("form", ["numbers", "blob", "array", "channels"])
def test_a_mean_is_subtracted_in_each_form(shell, tmp_path, form):
    mean = np.stack([np.full((6, 6), value) for value in (10, 20, 300)]).astype("f4")
    blob = Message("BlobProto", num=1, channels=3, height=6, width=6, data=mean.reshape(-1))
    (tmp_path / "m.binaryproto").write_bytes(encode(blob))
    np.save("m.npy", mean)
    np.save("c.npy", mean.mean((1, 2)))
    given = {"numbers": "10,20,300", "blob": "m.binaryproto", "array": "m.npy", "channels": "c.npy"}[form]
    code, out, err = shell("cat.png", "--json", "--mean", given, "--scale", "0.5")
    assert code == 0, err
    np.testing.assert_allclose(flat(out), [7.5, 20, 0], rtol=1e-6)
    assert "a mean of 10, 20, 300 is subtracted, times 0.5" in err


def test_classes_have_the_names_of_a_file(shell, tmp_path):
    (tmp_path / "synset_words.txt").write_text("n01 tench\nn02 goldfish\nn03 shark\n\n")
    _, out, _ = shell("cat.png", "--labels", "synset_words.txt", "--top", "1")
    assert out.strip().startswith("cat.png: n03 shark")


def test_a_blob_has_the_value_that_layers_leave_in_it(shell, tmp_path):
    np.save("x.npy", np.full((2, 3, 4, 4), -3, "f4"))
    code, _, err = shell("x.npy", "--output", "x", "--to", "out.npz")
    assert code == 0, err
    with np.load("out.npz") as arrays:
        assert arrays["x"].shape == (2, 3, 4, 4)
        assert not arrays["x"].any()  # behind the ReLU in place


def test_arrays_are_given_as_they_are(shell):
    np.save("x.npy", np.arange(3, dtype="f4").reshape(1, 3, 1, 1) * np.ones((1, 3, 4, 4), "f4"))
    _, out, err = shell("x.npy", "--json")
    np.testing.assert_allclose(flat(out), [0, 0.5, 1])
    assert "channels" not in err


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["cat.png", "--mean", "1,2"], "the mean has 2 values, the net's images have 3 channels"),
        (["cat.png", "--mean", "mean.txt"], r"expected numbers (104,117,123), a .binaryproto or a .npy file"),
        (["cat.png", "--mean", "no.npy"], "no.npy"),
        (["cat.png", "--mean", "cat.npy"], "cat.npy"),
        (["cat.png", "--mean", "nan"], "must be finite"),
        (["x.npy", "--mean", "1"], "arrays are given to the net as they are"),
        (["cat.png", "--labels", "deploy.prototxt", "--mean", "bad.binaryproto"], "no mean image of Caffe"),
    ],
)
def test_mistakes_are_one_sentence(shell, tmp_path, args, reason):
    np.save("x.npy", np.zeros((1, 3, 4, 4), "f4"))
    (tmp_path / "cat.npy").write_bytes(b"no array")
    (tmp_path / "bad.binaryproto").write_bytes(b"no blob")
    code, _, err = shell(*args)
    assert code != 0
    assert reason in err
    assert "Traceback" not in err


def test_a_mean_image_is_averaged_by_channel(tmp_path):
    np.save(tmp_path / "m.npy", np.arange(12.0).reshape(3, 2, 2))
    assert read_mean(str(tmp_path / "m.npy")) == (1.5, 5.5, 9.5)
