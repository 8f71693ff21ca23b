"""The peers' nets that other tests compare with."""

from __future__ import annotations

import pytest

from tests.interop.torchvision_nets import torchvision_net


@pytest.mark.parametrize(("name", "parameters"), [("squeezenet1_1", 1_235_496), ("mobilenet_v2", 3_504_872)])
def test_a_net_of_torchvision_has_its_parameters_and_random_statistics(name: str, parameters: int):
    net = torchvision_net(name)
    assert sum(p.numel() for p in net.parameters()) == parameters
    assert not net.training
    statistics = [b for n, b in net.named_buffers() if n.endswith(("running_mean", "running_var"))]
    assert all(len(b.unique()) > 1 for b in statistics)
    assert torchvision_net(name) is net
