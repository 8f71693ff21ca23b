"""Frozen layers and staged unfreezing on a device: the steps' graphs are captured anew, the states stay on it."""

import numpy as np
import pytest

import prototorch as pt
from tests.cuda.fake.fake_gpu import (
    FakeDevice,
    assert_same_weights,
    compile_net,
    fake_backend,
    make_data,
    reference_cpu,
    use_backend,
)


@pytest.mark.parametrize("size", [44, 40], ids=["a smaller last batch", "full batches"])
def test_stages_on_a_device_are_those_of_the_cpu(size):
    x, y = make_data(size)
    models = []
    for backend in (reference_cpu(), fake_backend(FakeDevice())):
        model = compile_net(backend, freeze=["**", "!logits"])
        stages = [pt.callbacks.Unfreeze(1, "conv"), pt.callbacks.Unfreeze(2, "**", learning_rate=1e-4)]
        with use_backend(backend):
            model.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=stages)
        models.append(model)
    assert_same_weights(*models)
    assert models[1].trainer.unfreezings == models[0].trainer.unfreezings
    first = compile_net(reference_cpu())
    assert all(
        not np.array_equal(a, b)
        for a, b in zip(first.get_weights().values(), models[1].get_weights().values(), strict=True)
    )
