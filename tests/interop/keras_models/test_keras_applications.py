"""Nets of keras.applications with random weights, and a real model of Keras 2, as texts with the same outputs."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from prototorch.interop.conversion.sources import WeightOptions, open_source
from tests.interop.keras_models.imported import check_equal
from tests.interop.real_files import real_file

pytestmark = pytest.mark.filterwarnings("ignore")  # of Keras' own
#: name -> the side of its images, and the most lines of its text
NETS = {
    "MobileNetV2": (64, 80), "ResNet50": (64, 60), "DenseNet121": (64, 60), "Xception": (96, 80), "VGG16": (32, 30),
    "EfficientNetB0": (64, 150), "InceptionV3": (96, 190), "MobileNetV3Small": (64, 130),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_nets_of_keras_applications(name, tmp_path):
    side, lines = NETS[name]
    net = getattr(keras.applications, name)(
        weights=None, input_shape=(side, side, 3), classes=7, classifier_activation=None
    )
    text = check_equal(net, tmp_path / "net.keras", batch=1, tolerance=3e-4)  # float32 over hundreds of layers
    assert text.count("\n") <= lines


def test_mini_xception_as_a_text(tmp_path):
    """The whole model of Keras 2.0.5 with its training configuration: 58,423 parameters."""
    path = real_file("emotion_model", tmp_path)
    source = open_source(str(path), None, (), WeightOptions(), {})
    assert source.text is not None
    assert source.text.count("\n") <= 90
    images = np.random.default_rng(0).uniform(-1, 1, (3, 64, 64, 1)).astype(np.float32)
    peer = keras.models.load_model(path, compile=False)
    expected = keras.ops.convert_to_numpy(peer(images, training=False))
    np.testing.assert_allclose(source.model.predict(np.moveaxis(images, -1, 1).copy()), expected, atol=1e-4)
