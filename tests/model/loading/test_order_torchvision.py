"""Pairs by order and shape of whole nets of torchvision, whose names are others, are the right ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import prototorch as pt
from tests.interop.torchvision_nets import torchvision_net


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "theirs"),
    [("resnet18", "resnet18"), ("mobilenet_v2", "mobilenet_v2"), ("googlenet_torchvision", "googlenet")],
)
def test_outputs_are_torchvisions(tmp_path: Path, name: str, theirs: str):
    net = torchvision_net(theirs).eval()
    torch.save(net.state_dict(), tmp_path / "w.pt")
    model = pt.Model(replace(pt.load_model(name).net, preprocess=()))
    model.load_weights(tmp_path / "w.pt", by_order=True)
    x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    outputs = model.predict(x)
    ours = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
