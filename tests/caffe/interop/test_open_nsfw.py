"""The published weights of open_nsfw (a thin ResNet-50): all are read, and outputs are those of PyTorch."""

from __future__ import annotations

import json

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli import main
from prototorch.interop.conversion.convert import convert
from tests.caffe.interop.torch_forward import TorchNet
from tests.interop.real_files import real_file


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nsfw")
    return real_file("open_nsfw.prototxt", folder), real_file("open_nsfw", folder)


@pytest.fixture(scope="module")
def images():
    """Noise of the size of prepared images: blue, green, red, less their means."""
    noise = np.random.default_rng(0).uniform(0, 255, (2, 3, 224, 224)) - np.array([104, 117, 123]).reshape(3, 1, 1)
    return noise.astype(np.float32)


@pytest.fixture(scope="module")
def reference(files, images):
    net = TorchNet(*map(str, files))
    return net(images), {name: blob.numpy() for name, blob in net.blobs.items()}


def test_the_net_is_loaded_whole_and_computes_as_pytorch(files, images, reference):
    text, weights = files
    model = pt.load_model(text)
    report = model.load_weights(weights)
    assert len(report.loaded) == 373
    assert not report.missing
    assert not report.unexpected
    np.testing.assert_allclose(model.predict(images), reference[0], rtol=1e-4, atol=1e-6)


def test_the_converted_net_computes_as_pytorch(files, images, reference, tmp_path):
    text, weights = files
    path = tmp_path / "net.proto"
    convert(str(text), str(path), matching=None, import_options={"weights": str(weights)})
    model = pt.load_model(path, weights=str(tmp_path / "net.h5"))
    np.testing.assert_allclose(model.predict(images), reference[0], rtol=1e-4, atol=1e-6)


def test_blobs_are_features_by_their_names(files, images, reference, tmp_path, capfd):
    np.save(tmp_path / "images.npy", images)
    with pytest.raises(SystemExit) as done:
        main(["predict", str(files[0]), "--weights", str(files[1]), str(tmp_path / "images.npy"),
              "--output", "pool", "--output", "conv_1", "--to", str(tmp_path / "out.npz")])  # fmt: skip
    assert not done.value.code
    with np.load(tmp_path / "out.npz") as arrays:
        for name in ("pool", "conv_1"):
            expected = reference[1][name]
            np.testing.assert_allclose(arrays[name], expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_a_picture_is_classified(files, tmp_path, capfd):
    from PIL import Image

    picture = np.random.default_rng(1).integers(0, 255, (224, 224, 3), np.uint8)
    Image.fromarray(picture).save(tmp_path / "noise.png")
    (tmp_path / "labels.txt").write_text("suitable\nunsuitable\n")
    with pytest.raises(SystemExit) as done:
        main(["predict", str(files[0]), "--weights", str(files[1]), str(tmp_path / "noise.png"), "--json",
              "--mean", "104,117,123", "--labels", str(tmp_path / "labels.txt")])  # fmt: skip
    assert not done.value.code
    out, err = capfd.readouterr()
    assert "channels blue, green, red" in err
    (row,) = json.loads(out)
    image = picture[..., ::-1].transpose(2, 0, 1)[None] - np.array([104, 117, 123]).reshape(3, 1, 1)
    expected = TorchNet(*map(str, files))(image.astype(np.float32))
    scores = {one["class"]: one["score"] for one in row["classes"]["prob"]}
    np.testing.assert_allclose([scores["suitable"], scores["unsuitable"]], expected[0], rtol=1e-3, atol=1e-6)
