"""`prototorch time` on the fake device: pieces by the device's own clock, put together by layer."""

from __future__ import annotations

import pytest

from prototorch.errors import UsageError
from prototorch.measure import machine
from prototorch.measure.compare import compare_with_torch
from prototorch.measure.profile import profile_step
from prototorch.measure.table import format_table
from tests.cuda.fake.fake_gpu import compile_net, fake_backend, use_backend


@pytest.mark.parametrize("phase", ["train", "predict"])
def test_a_step_on_a_device_is_split_by_layer(phase: str, monkeypatch):
    for name, small in (("_SECONDS", 0.0), ("_MATRIX_SIZE", 8), ("_COPY_BYTES", 1 << 12)):
        monkeypatch.setattr(machine, name, small)
    backend = fake_backend()
    model = compile_net(backend)
    with use_backend(backend):
        found = profile_step(model, phase, batch=4, rounds=1)
    named = {part.name: part for part in found.layers}
    assert named["conv"].seconds["forward"] > 0
    assert named["conv"].cost.flops > 0
    assert (named["conv"].seconds["backward"] > 0) == (phase == "train")
    assert found.setup_seconds == 0
    plan = sum(1 for told, _ in found.steps if told.number)
    assert plan == len([told for told, _ in found.steps if told.level != "device"])
    assert ("check of the loss" in {told.op for told, _ in found.steps}) == (phase == "train")
    text = "\n".join(format_table(found, detail=True))
    assert "threads" not in text
    assert "the whole step" in text


def test_pytorch_is_compared_with_on_the_cpu():
    pytest.importorskip("torch")
    backend = fake_backend()
    model = compile_net(backend)
    with use_backend(backend), pytest.raises(UsageError, match="compares on the CPU"):
        compare_with_torch(model, "predict", batch=4)
