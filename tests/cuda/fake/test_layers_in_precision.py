"""Every layer on the fake device: in float32 the same numbers, in lower precision nearly."""

import pytest

from prototorch import layers
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from prototorch.engine.harness import cases
from prototorch.engine.harness.backend_parity import assert_backend_agrees
from prototorch.layers.base import Layer
from tests.cuda.fake.fake_gpu import FakeDevice, fake_backend

SHIPPED = [c for c in Layer.members().values() if c.__module__.startswith(layers.__name__)]


@pytest.mark.parametrize("word", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("case", list(cases(*SHIPPED)), ids=lambda c: c.id)
def test_every_layer(case, word):
    assert_backend_agrees(case, fake_backend(FakeDevice(ExecutionSettings(resolve_precision(word, gpu=True)))))
