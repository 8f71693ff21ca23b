"""Classifier and Detector against their steps one by one."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import prototorch.caffe as caffe
from prototorch.errors import UsageError

NET = """
name: "tiny"
input: "data"
input_shape { dim: 10 dim: 3 dim: 8 dim: 8 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3
        weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5
        weight_filler { type: "gaussian" std: 0.02 } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""
MEAN = np.array([104.0, 117.0, 123.0])
OPTIONS = {"mean": MEAN, "raw_scale": 255, "channel_swap": (2, 1, 0), "input_scale": 0.02}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "deploy.prototxt").write_text(NET)
    caffe.set_random_seed(3)
    caffe.Net(str(folder / "deploy.prototxt"), caffe.TEST).save(str(folder / "tiny.caffemodel"))
    pixels = np.random.default_rng(0).integers(0, 256, (20, 26, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    return folder


def predict(folder, crops):
    """The probabilities of crops [n, 8, 8, 3] in 0..1, by the net alone."""
    net = caffe.Net(str(folder / "deploy.prototxt"), caffe.TEST, weights=str(folder / "tiny.caffemodel"))
    data = (crops.transpose(0, 3, 1, 2)[:, ::-1] * 255 - MEAN[:, None, None]) * 0.02
    net.blobs["data"].reshape(*data.shape)
    return net.forward(data=data)["prob"].copy()


@pytest.mark.parametrize("dims", [None, (12, 14)])
def test_a_classifier_takes_the_center_or_the_mean_of_ten_crops(files, dims):
    classifier = caffe.Classifier(
        str(files / "deploy.prototxt"), str(files / "tiny.caffemodel"), image_dims=dims, **OPTIONS
    )
    images = [caffe.io.load_image(files / "a.png"), np.random.default_rng(1).random((9, 9, 3)).astype(np.float32)]
    resized = [caffe.io.resize_image(image, dims or (8, 8)) for image in images]
    top, left = ((dims[0] - 8) // 2, (dims[1] - 8) // 2) if dims else (0, 0)
    center = predict(files, np.stack([image[top : top + 8, left : left + 8] for image in resized]))
    np.testing.assert_allclose(classifier.predict(images, oversample=False), center, rtol=1e-4, atol=1e-6)
    crops = caffe.io.oversample(resized, (8, 8))
    expected = predict(files, crops).reshape(2, 10, 5).mean(axis=1)
    found = classifier.predict(images)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    with pytest.raises(UsageError, match="no images"):
        classifier.predict([])


def test_a_detector_predicts_windows(files):
    detector = caffe.Detector(str(files / "deploy.prototxt"), str(files / "tiny.caffemodel"), **OPTIONS)
    image, windows = caffe.io.load_image(files / "a.png"), [[0, 0, 20, 26], [3, 4, 12, 20]]
    found = detector.detect_windows([(str(files / "a.png"), windows)])
    crops = [caffe.io.resize_image(image[t:b, a:c], (8, 8)) for t, a, b, c in windows]
    expected = predict(files, np.stack(crops))
    assert [one["window"] for one in found] == windows
    assert found[0]["filename"] == str(files / "a.png")
    np.testing.assert_allclose(np.stack([one["prediction"] for one in found]), expected, rtol=1e-4, atol=1e-6)
    assert detector.detect_windows([]) == []
    with pytest.raises(UsageError, match="detect_windows"):
        detector.detect_selective_search([str(files / "a.png")])
    with pytest.raises(UsageError, match="holds nothing"):
        detector.crop(image, [30, 30, 40, 40])


def test_the_context_of_a_window_is_the_image_and_the_mean_beyond_it(files):
    detector = caffe.Detector(str(files / "deploy.prototxt"), str(files / "tiny.caffemodel"), context_pad=2, **OPTIONS)
    image = caffe.io.load_image(files / "a.png")
    inner = detector.crop(image, [8, 8, 11, 11])  # 4 + 1 pixels become 4 of 8; 8 of them are 8 pixels of the image
    assert inner.shape == (8, 8, 3)
    np.testing.assert_allclose(inner[4, 4], image[9:11, 9:11].reshape(-1, 3).mean(0), atol=0.5)
    corner = detector.crop(image, [0, 0, 3, 3])
    beyond = (MEAN[::-1] / 255).astype(np.float32)
    np.testing.assert_allclose(corner[0], np.broadcast_to(beyond, (8, 3)), rtol=1e-6)
    np.testing.assert_allclose(corner[:, 0], np.broadcast_to(beyond, (8, 3)), rtol=1e-6)
    assert not np.allclose(corner[5, 5], beyond, atol=1e-3)
    with pytest.raises(UsageError, match="context_pad"):
        caffe.Detector(str(files / "deploy.prototxt"), str(files / "tiny.caffemodel"), context_pad=4)
