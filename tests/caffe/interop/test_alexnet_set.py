"""The declared weight set of BVLC's AlexNet: its file's names and shapes are those that the net expects."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.interop.wire import iter_encoded
from prototorch.caffe.text.message import Message

#: of bvlc_alexnet.caffemodel, which has the shapes of old files
SHAPES = {
    "conv1": (96, 3, 11, 11), "conv2": (256, 48, 5, 5), "conv3": (384, 256, 3, 3), "conv4": (384, 192, 3, 3),
    "conv5": (256, 192, 3, 3), "fc6": (1, 1, 4096, 9216), "fc7": (1, 1, 4096, 4096), "fc8": (1, 1, 1000, 4096),
}  # fmt: skip


def old_blob(shape, value):
    names = dict(zip(("num", "channels", "height", "width"), shape, strict=True))
    return Message("BlobProto", **names, data=np.broadcast_to(np.float32(value), (int(np.prod(shape)),)))


def write(path):
    """A file of zeros, with biases of 1; the zeros of large arrays are holes."""
    layers = []
    for name, shape in SHAPES.items():
        bias = old_blob((1, 1, 1, max(shape[:1] if shape[0] > 1 else shape[2:3])), 1)
        layers.append(Message("V1LayerParameter", name=name, blobs=[old_blob(shape, 0), bias]))
    with open(path, "wb") as file:
        for piece in iter_encoded(Message("NetParameter", name="AlexNet", layers=layers)):
            if len(piece) > 100_000:
                file.seek(len(piece), 1)
            else:
                file.write(piece)


@pytest.mark.slow
def test_the_file_of_the_set_fits_the_shipped_model(tmp_path):
    path = tmp_path / "bvlc_alexnet.caffemodel"
    write(path)
    model = pt.load_model("alexnet")
    report = model.load_weights(path)
    assert len(report.loaded) == 16
    assert not report.missing
    assert not report.unexpected
    assert all(array.min() == array.max() == name.endswith("bias") for name, array in model.weights.items())
    assert type(model.net.preprocess[0]).__name__ == "ColorChannels"
    assert len(model.net.class_names) == 1000
