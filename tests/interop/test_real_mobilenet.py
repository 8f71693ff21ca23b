"""The published weights of MobileNetV2 on photos: our outputs are torchvision's, and the best class is what is seen."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import prototorch as pt
from tests.interop.real_files import real_file
from tests.interop.torchvision_nets import torchvision_module

SEEN = {"chelsea.png": "Egyptian cat", "coffee.png": "espresso", "rocket.jpg": "drilling platform",
        "motorcycle_left.png": "moped"}  # fmt: skip


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory):
    """The file as torchvision publishes it."""
    return real_file("mobilenet_v2", tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def nets(weights):
    """Our model and torchvision's net, both with the published weights, and torchvision's transforms."""
    models = torchvision_module().models
    net = models.mobilenet_v2(weights=None)
    net.load_state_dict(torch.load(weights, weights_only=True), strict=True)
    model = pt.load_model("mobilenet_v2", weights=str(weights))
    return model, net.eval(), models.MobileNet_V2_Weights.IMAGENET1K_V1.transforms()


def test_every_weight_is_the_published_one(nets):
    model, net, _ = nets
    ours = np.sort(np.concatenate([a.ravel() for a in model.weights.values()]))
    state = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    np.testing.assert_array_equal(ours, np.sort(np.concatenate([v.numpy().ravel() for v in state.values()])))


@pytest.mark.parametrize("name", SEEN)
def test_the_outputs_for_a_photo_are_those_of_torchvision(nets, name: str, tmp_path):
    model, net, transform = nets
    image = Image.open(real_file(name, tmp_path)).convert("RGB")
    with torch.no_grad():
        theirs = net(transform(image)[None])[0].numpy()
    ours = model.predict(np.asarray(image).transpose(2, 0, 1)[None])[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert model.net.class_names[int(np.argmax(ours))] == SEEN[name]


def test_predict_prints_the_five_best_classes(weights, tmp_path):
    photo = real_file("chelsea.png", tmp_path)
    command = [sys.executable, "-m", "prototorch", "predict", "mobilenet_v2", "--weights", weights, photo, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    classes = json.loads(result.stdout)[0]["classes"]["logits"]
    assert [row["class"] for row in classes] == ["Egyptian cat", "tiger cat", "tabby", "lynx", "plastic bag"]
    assert classes[0]["score"] == pytest.approx(0.717, abs=0.001)
