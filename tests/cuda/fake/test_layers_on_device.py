"""Every layer on tensors of a GPU: its weights, states and random keys are created where its inputs are."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers
from prototorch.eager.layer_call import run_layer, weights_of
from prototorch.engine.harness import cases
from prototorch.errors import PrototorchError
from prototorch.layers.base import Layer
from tests.cuda.fake.fake_cuda import use_fake_cuda

SHIPPED = [c for c in Layer.members().values() if c.__module__.startswith(layers.__name__)]
FIRST = {case.instance.__class__: case for case in reversed(list(cases(*SHIPPED)))}


def outputs_of(case, device):
    layer = case.instance.replace()
    pt.manual_seed(0)
    inputs = [pt.tensor(np.array(x)).to(device) for x in case.inputs("float32")]
    outputs = run_layer(layer, inputs, training=True)
    return outputs if isinstance(outputs, tuple) else (outputs,), weights_of(layer)


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda c: c.id)
def test_every_layer(case):
    try:
        expected, _ = outputs_of(case, "cpu")
    except PrototorchError as error:
        pytest.skip(f"no layer by itself: {error}")
    with use_fake_cuda():
        results, weights = outputs_of(case, "cuda:1")
        assert all(t.device == "cuda:1" for t in [*results, *weights.values()])
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result.numpy(), value.numpy(), rtol=1e-4, atol=1e-5)
